// Fuzzes `.metadata` of torch.distributed.checkpoint: the pickle, its contents, and the grids of
// its tensors.

#include <string>

#include "format/dcp/metadata.h"
#include "format/dcp/pieces.h"
#include "fuzz/fuzz_target.h"

namespace hfshard {

void fuzz_dcp_metadata(std::string_view bytes) {
  const format::dcp::Metadata found = format::dcp::read_metadata(std::string(bytes), ".metadata");
  for (const format::dcp::StoredTensor& tensor : found.tensors)
    format::dcp::cut_pieces(tensor, ".metadata");
}

}  // namespace hfshard
