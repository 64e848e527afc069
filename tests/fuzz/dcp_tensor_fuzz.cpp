// `data.pkl` of a torch.save archive that holds one tensor.

#include <string>

#include "base/coding.h"
#include "format/dcp/pickle.h"
#include "format/dcp/tensor_pickle.h"
#include "fuzz/fuzz_target.h"

#include "hfshard/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hfshard;
  std::string bytes(as_text(std::as_bytes(std::span(data, size))));
  try {
    format::dcp::read_tensor_pickle(
        format::dcp::Pickle(std::move(bytes), "data.pkl", format::dcp::Persistent::allowed));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
  return 0;
}
