// `data.pkl` of a torch.save archive that holds one tensor.

#include <string>

#include "format/dcp/pickle.h"
#include "format/dcp/tensor_pickle.h"
#include "fuzz/fuzz_target.h"

namespace hfshard {

void fuzz_dcp_tensor(std::string_view bytes) {
  format::dcp::read_tensor_pickle(
      format::dcp::Pickle(std::string(bytes), "data.pkl", format::dcp::Persistent::allowed));
}

}  // namespace hfshard
