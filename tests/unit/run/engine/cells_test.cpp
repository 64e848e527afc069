#include "run/engine/cells.h"

#include <gtest/gtest.h>

#include "base/coding.h"
#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// A fill has the dtype of its leaf, rounded once.
TEST(ScalarBytes, AreTheValueInTheLeafsDtype) {
  const double third = 1.0 / 3;
  EXPECT_EQ(load_le<double>(scalar_bytes(third, DType::f64).data()), third);
  EXPECT_EQ(load_le<float>(scalar_bytes(third, DType::f32).data()), static_cast<float>(third));
  EXPECT_EQ(load_le<std::uint16_t>(scalar_bytes(third, DType::f16).data()), 0x3555);
  EXPECT_EQ(load_le<std::uint16_t>(scalar_bytes(third, DType::bf16).data()), 0x3eab);
  for (const DType dtype : {DType::u8, DType::i32, DType::i64, DType::f8_e4m3}) {
    EXPECT_EQ(scalar_bytes(0, dtype), std::vector<std::byte>(size_bits(dtype) / 8));
    const Error error = catch_error([&] { scalar_bytes(1, dtype); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.sentence(), "can't fill a " + std::string(to_string(dtype)) + " tensor with 1");
  }
}

}  // namespace
}  // namespace hfshard
