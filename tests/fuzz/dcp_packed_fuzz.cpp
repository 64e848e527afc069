// Fuzzes an archive of torch.save that is read as a stream: its front, its elements, and its end.

#include <algorithm>
#include <string>
#include <vector>

#include "format/dcp/packed_item.h"
#include "fuzz/fuzz_target.h"
#include "support/memory_source.h"
#include "support/zstd_frames.h"

namespace hfshard {

void fuzz_dcp_packed(std::string_view bytes) {
  const MemorySource file(zstd_frame(bytes, {1, 0, false}));
  format::dcp::ItemPlace place;
  place.length_bytes = file.size_bytes();
  static std::vector<std::byte> scratch(format::dcp::PackedItem::scratch_bytes());
  format::dcp::PackedItem item(file, place, {DType::f32, {4, 3}}, scratch);
  std::vector<std::byte> out(std::min<std::uint64_t>(item.payload().size_bytes, 1000));
  item.read(item.payload().size_bytes - out.size(), out);
  item.finish();
}

}  // namespace hfshard
