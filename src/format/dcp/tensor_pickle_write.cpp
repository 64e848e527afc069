#include "format/dcp/tensor_pickle_write.h"

#include <string_view>

#include "format/dcp/pickle_writer.h"
#include "format/torch_dtype.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// Source: pytorch/pytorch torch/_utils.py.
constexpr std::string_view kTorchUtils = "torch._utils";
constexpr std::string_view kTyped = "_rebuild_tensor_v2";
constexpr std::string_view kUntyped = "_rebuild_tensor_v3";

}  // namespace

std::string tensor_pickle(DType dtype, const Shape& shape) {
  const TorchDType* torch = torch_dtype(dtype);
  HFSHARD_CHECK(torch != nullptr);
  const bool untyped = torch->storage.empty();
  std::string out;
  PickleWriter write(out);
  write.begin().global(kTorchUtils, untyped ? kUntyped : kTyped).op(Op::mark).op(Op::mark);
  write.text("storage");
  if (untyped) {
    write.global("torch.storage", "UntypedStorage");
  } else {
    write.global("torch", torch->storage);
  }
  write.text("0").text("cpu");
  write.integer(shape.numel() * (untyped ? unit_bytes(dtype) : 1));
  write.op(Op::tuple).op(Op::bin_pers_id).integer(0);
  write.integers(shape).integers(shape.strides()).op(Op::new_false);
  write.global("collections", "OrderedDict").op(Op::empty_tuple).op(Op::reduce);
  if (untyped) write.global("torch", torch->name);
  write.op(Op::tuple).op(Op::reduce).op(Op::stop);
  return out;
}

}  // namespace hfshard::format::dcp
