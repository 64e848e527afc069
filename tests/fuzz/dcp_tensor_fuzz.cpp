// Fuzzes `data.pkl` of a torch.save archive with one tensor.

#include <string>

#include "format/pickle.h"
#include "format/tensor_pickle.h"
#include "fuzz/fuzz_target.h"

namespace hfshard {

void fuzz_dcp_tensor(std::string_view bytes) {
  format::read_tensor_pickle(
      format::Pickle(std::string(bytes), "data.pkl", format::Persistent::allowed));
}

}  // namespace hfshard
