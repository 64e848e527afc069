#include "format/torch_dtype.h"

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard::format {
namespace {

TEST(TorchDType, RowsOfPackedElementsFillUnits) {
  EXPECT_EQ(to_units(DType::f4, {3, 6}), (Shape{3, 3}));
  EXPECT_EQ(from_units(DType::f4, {3, 3}), (Shape{3, 6}));
  EXPECT_EQ(to_units(DType::bf16, {3, 5}), (Shape{3, 5}));
  for (const Shape& shape : {Shape{6, 3}, Shape{}}) {
    const Error error = catch_error([&] { (void)to_units(DType::f4, shape); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << to_string(shape);
  }
  EXPECT_EQ(from_units(DType::f4, Shape{}), Shape{});
}

TEST(TorchDType, ADTypeWithoutAStorageClassIsNotFoundByIt) {
  EXPECT_EQ(torch_dtype_of_storage("HalfStorage")->dtype, DType::f16);
  EXPECT_EQ(torch_dtype_of_storage(""), nullptr);
}

}  // namespace
}  // namespace hfshard::format
