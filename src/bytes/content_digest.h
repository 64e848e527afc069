#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/digest.h"
#include "bytes/hf_cache.h"

namespace hfshard {

/// What a listing says that a file's bytes are: the SHA-256 of a large one, git's object id of
/// another, which begins with the size.
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
  /// Hex. The object may not be used afterwards.
  std::string finish() {
    return std::visit([](auto& digest) { return to_hex(digest.finish()); }, digest_);
  }
  const char* name() const noexcept { return digest_.index() == 0 ? "sha256" : "git object id"; }

 private:
  std::variant<Sha256, Sha1> digest_;
};

}  // namespace hfshard
