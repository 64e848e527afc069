#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bytes/store/open_files.h"
#include "bytes/store/store.h"
#include "format/dcp/metadata.h"
#include "format/dcp/payload.h"
#include "format/dcp/shard_header.h"

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard::format::dcp {

/// The files of a checkpoint and the contents of their items. Const and thread-safe.
class Items {
 public:
  /// Looks at every file that has items. Throws: not_found (naming the first item's key), corrupt
  /// (an item that passes the end of its file), io. With `despite_loss`, `open` and `find` report
  /// missing and truncated files instead.
  Items(const StorePath& directory, const Metadata& metadata, bool despite_loss = false);

  /// Counts the existing files with items. A file whose items have no elements may be missing.
  std::uint64_t file_count() const;
  std::string path_of(std::uint32_t file) const { return files_[file].path.text(); }
  /// Opens a file. Throws: corrupt (its size changed), as Store::open.
  std::shared_ptr<const SourceFile> open(std::uint32_t file) const;
  /// Finds the elements of a box in a safetensors file or an archive of torch.save, packed or not.
  /// Decodes the front of a packed item, for which it needs PackedItem::scratch_bytes. Throws:
  /// corrupt (the metadata differ), unsupported, limit, io.
  Payload find(const StoredTensor& tensor, const StoredBox& box) const;
  std::uint64_t heap_bytes() const;

 private:
  struct DataFile {
    StorePath path;
    std::uint64_t size_bytes = 0;
    bool looked_at = false;  ///< its front was read
    bool is_there = false;
  };
  void find_header(const ItemPlace& place, bool despite_loss);
  void check_there(std::uint32_t file) const;
  void check_place(const ItemPlace& place) const;
  void check(const ItemPlace& place, const std::string& key) const;
  static Payload find_in_archive(const StoredTensor& tensor, const StoredBox& box,
                                 const Source& file);
  Payload find_in_safetensors(const StoredTensor& tensor, const StoredBox& box,
                              const Source& file) const;

  std::vector<DataFile> files_;
  OpenFiles open_;
  std::map<std::uint32_t, ShardHeader> headers_;  // of safetensors files
};

/// Returns whether the elements of a box are packed with their axes in that order (slow to fast).
bool is_packed(const Shape& extent, const Shape& strides, const std::vector<std::uint8_t>& order);
/// Returns the order in which they are packed. Considers axes with more than one element. Row-major
/// if they aren't packed.
std::vector<std::uint8_t> order_of(const Shape& extent, const Shape& strides);

}  // namespace hfshard::format::dcp
