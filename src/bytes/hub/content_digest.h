#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/digest.h"
#include "bytes/hub/hf_cache.h"

namespace hfshard {

/// The digest of a file's bytes, as a listing has it. For a large file it is the SHA-256, for
/// another git's object id, which begins with the size.
class ContentDigest {
 public:
  explicit ContentDigest(const TreeFile& file) {
    if (!file.sha256.empty()) return;
    Sha1& sha = digest_.emplace<Sha1>();
    const std::string head = "blob " + std::to_string(file.size_bytes);
    sha.update(head).update(std::string_view("\0", 1));
  }
  void update(std::span<const std::byte> bytes) {
    std::visit([&](auto& digest) { digest.update(bytes); }, digest_);
  }
  /// Returns the digest in hex. Don't use the object afterwards.
  std::string finish() {
    return std::visit([](auto& digest) { return to_hex(digest.finish()); }, digest_);
  }
  const char* name() const noexcept { return digest_.index() == 0 ? "sha256" : "git object id"; }

 private:
  std::variant<Sha256, Sha1> digest_;
};

}  // namespace hfshard
