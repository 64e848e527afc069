#include "format/torch_dtype.h"

#include <string>

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
    EXPECT_EQ(error.sentence(), "rows of " + std::string(shape.rank() == 0 ? "1" : "3") +
                                    " elements of " + std::string(to_string(DType::f4)) +
                                    " do not fill torch's units of 2");
  }
  EXPECT_EQ(from_units(DType::f4, Shape{}), Shape{});
}

TEST(TorchDType, ADTypeWithoutAStorageClassIsNotFoundByIt) {
  EXPECT_EQ(torch_dtype_of_storage("HalfStorage")->dtype, DType::f16);
  EXPECT_EQ(torch_dtype_of_storage(""), nullptr);
}

// Source: pytorch/pytorch torch/storage.py _dtype_to_storage_type_map.
TEST(TorchDType, EachHasItsNameAndItsStorage) {
  struct Names {
    DType dtype;
    const char* name;
    const char* storage;
  };
  for (const Names& each : {Names{DType::boolean, "bool", "BoolStorage"},
                            Names{DType::f4, "float4_e2m1fn_x2", ""},
                            Names{DType::u8, "uint8", "ByteStorage"},
                            Names{DType::i8, "int8", "CharStorage"},
                            Names{DType::f8_e5m2, "float8_e5m2", ""},
                            Names{DType::f8_e4m3, "float8_e4m3fn", ""},
                            Names{DType::f8_e8m0, "float8_e8m0fnu", ""},
                            Names{DType::f8_e4m3fnuz, "float8_e4m3fnuz", ""},
                            Names{DType::f8_e5m2fnuz, "float8_e5m2fnuz", ""},
                            Names{DType::i16, "int16", "ShortStorage"},
                            Names{DType::u16, "uint16", ""},
                            Names{DType::f16, "float16", "HalfStorage"},
                            Names{DType::bf16, "bfloat16", "BFloat16Storage"},
                            Names{DType::i32, "int32", "IntStorage"},
                            Names{DType::u32, "uint32", ""},
                            Names{DType::f32, "float32", "FloatStorage"},
                            Names{DType::c64, "complex64", "ComplexFloatStorage"},
                            Names{DType::f64, "float64", "DoubleStorage"},
                            Names{DType::i64, "int64", "LongStorage"},
                            Names{DType::u64, "uint64", ""}}) {
    ASSERT_NE(torch_dtype(each.dtype), nullptr) << each.name;
    EXPECT_EQ(torch_dtype(each.dtype)->name, each.name);
    EXPECT_EQ(torch_dtype(each.dtype)->storage, each.storage) << each.name;
    EXPECT_EQ(torch_dtype_named(each.name), torch_dtype(each.dtype));
    EXPECT_EQ(torch_dtype_of_storage(each.storage),
              *each.storage == '\0' ? nullptr : torch_dtype(each.dtype));
  }
  EXPECT_EQ(torch_dtype(DType::f6_e2m3), nullptr);
  EXPECT_EQ(torch_dtype_named("float"), nullptr);
  EXPECT_EQ(torch_dtype_of_storage("FloatTensor"), nullptr);
  EXPECT_EQ(unit_bytes(DType::f4), 1U);
  EXPECT_EQ(unit_bytes(DType::c64), 8U);
}

}  // namespace
}  // namespace hfshard::format
