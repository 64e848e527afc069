#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bytes/open_files.h"
#include "bytes/store.h"
#include "format/dcp/metadata.h"
#include "format/dcp/payload.h"
#include "format/dcp/shard_header.h"

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard::format::dcp {

/// The files of a checkpoint and what their items say. Const and thread-safe.
class Items {
 public:
  /// Looks at every file that an item lies in. Throws: not_found (naming the first item's key),
  /// corrupt (an item that passes the end of its file), io. `despite_loss`: of files that are
  /// missing or cut short that is said by `open` and `find`.
  Items(const StorePath& directory, const Metadata& metadata, bool despite_loss = false);

  /// Those that hold items; one whose items have no elements may not be there.
  std::uint64_t file_count() const;
  std::string path_of(std::uint32_t file) const { return files_[file].path.text(); }
  /// Throws: corrupt (the file is not as long as it was), as Store::open.
  std::shared_ptr<const SourceFile> open(std::uint32_t file) const;
  /// Looks for the elements of a box of a tensor, in an archive of torch.save, packed or not, or a
  /// safetensors file. Of a packed one the front is decoded, which takes PackedItem::scratch_bytes
  /// meanwhile. Throws: corrupt (not what the metadata says), unsupported, limit, io.
  Payload find(const StoredTensor& tensor, const StoredBox& box) const;
  std::uint64_t heap_bytes() const;

 private:
  struct DataFile {
    StorePath path;
    std::uint64_t size_bytes = 0;
    bool looked_at = false;  ///< whether its front was
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
  std::map<std::uint32_t, ShardHeader> headers_;  // of files that are safetensors
};

/// Whether the elements of a box lie packed, its axes in that order (slow to fast).
bool is_packed(const Shape& extent, const Shape& strides, const std::vector<std::uint8_t>& order);
/// An order in which they do, of the axes that have more than one element; else row-major.
std::vector<std::uint8_t> order_of(const Shape& extent, const Shape& strides);

}  // namespace hfshard::format::dcp
