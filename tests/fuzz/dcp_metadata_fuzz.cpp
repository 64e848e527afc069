// `.metadata` of a torch.distributed.checkpoint: the pickle, what it says, and the grids of its
// tensors.

#include <string>

#include "base/coding.h"
#include "format/dcp/metadata.h"
#include "format/dcp/pieces.h"
#include "fuzz/fuzz_target.h"

#include "hfshard/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hfshard;
  std::string bytes(as_text(std::as_bytes(std::span(data, size))));
  try {
    const format::dcp::Metadata found = format::dcp::read_metadata(std::move(bytes), ".metadata");
    for (const format::dcp::StoredTensor& tensor : found.tensors)
      format::dcp::cut_pieces(tensor, ".metadata");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
  return 0;
}
