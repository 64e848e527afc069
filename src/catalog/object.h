#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/local/output.h"
#include "bytes/store/open_files.h"
#include "bytes/store/store.h"

#include "hfshard/error.h"

namespace hfshard {

/// Something other than an array that a checkpoint stores under a name, such as a learning rate.
/// Only the program that wrote it understands the bytes; hfshard copies them as they are.
struct ObjectInfo {
  std::string name;
  std::uint32_t file = 0;  ///< index into Catalog::object_files
  ByteRange range;
  std::vector<std::string> transforms;  ///< applied to the bytes, in order
  std::uint64_t size_bytes() const noexcept { return range.end - range.begin; }
};
std::uint64_t heap_bytes(const ObjectInfo& object);

/// The keys that led to an array or object in the nested state that was saved.
struct NestedName {
  std::string name;
  std::string keys;  ///< JSON array: strings for dicts, integers for lists
  friend bool operator==(const NestedName&, const NestedName&) = default;
};
std::uint64_t heap_bytes(const NestedName& name);
/// Returns the keys of a name; empty if it has no entry. `names` are sorted.
std::string_view nested_keys(const std::vector<NestedName>& names, std::string_view name);

/// Reads the bytes of a catalog's objects. Thread-safe.
class ObjectReader {
 public:
  /// Reads from the files of a catalog, which must outlive this.
  explicit ObjectReader(const std::vector<StorePath>& files) : files_(files) {}
  /// Streams the bytes of one object, at most kStepBytes at a time. Throws: corrupt (its range is
  /// not in the file), not_found, io; each with the object's name.
  void read(const ObjectInfo& object, const ByteSink& sink) const;
  /// Opens the file that holds an object. Throws: as read.
  std::shared_ptr<const SourceFile> open(const ObjectInfo& object) const;

  static constexpr std::size_t kStepBytes = std::size_t{1} << 20;

 private:
  const std::vector<StorePath>& files_;
  OpenFiles open_;
};

/// Returns the SHA-256 of an object's bytes, in hex; `also` gets the bytes too. Throws: as
/// ObjectReader::read.
std::string object_sha256(const ObjectReader& reader, const ObjectInfo& object,
                          const ByteSink& also = {});

}  // namespace hfshard
