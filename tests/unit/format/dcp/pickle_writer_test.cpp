#include "format/dcp/pickle_writer.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/pickle.h"

namespace hfshard::format::dcp {
namespace {

// Returns the integers of the tuple that a stream has.
std::vector<std::int64_t> integers_in(const std::string& stream) {
  const Pickle pickle(stream, "memory", Persistent::refused);
  std::vector<std::int64_t> out;
  for (const Pickle::Id each : pickle.tuple(pickle.root())) {
    EXPECT_TRUE(pickle.is(each, Pickle::Kind::integer));
    out.push_back(pickle.integer(each));
  }
  return out;
}

// Numbers from 256 on are longer.
TEST(DcpPickleWriter, AValueIsFoundUnderItsNumberInTheMemo) {
  std::string stream;
  PickleWriter write(stream);
  write.begin().op(Op::mark);
  constexpr std::uint32_t kValues = 300;
  std::vector<std::int64_t> expected;
  for (std::uint32_t number = 0; number < kValues; ++number) {
    write.integer(1000 + number).put(number);
    expected.push_back(1000 + std::int64_t{number});
  }
  for (const std::uint32_t number : {0U, 1U, 255U, 256U, 257U, kValues - 1}) {
    write.get(number);
    expected.push_back(1000 + std::int64_t{number});
  }
  write.op(Op::tuple).op(Op::stop);
  EXPECT_EQ(integers_in(stream), expected);
}

TEST(DcpPickleWriter, AnIntegerOfEachLengthIsRead) {
  std::vector<std::int64_t> values;
  for (int bits = 0; bits < 63; ++bits) {
    for (const int more : {-1, 0, 1}) values.push_back((std::int64_t{1} << bits) + more);
  }
  values.push_back(INT64_MAX);
  std::string stream;
  PickleWriter write(stream);
  write.begin().begin_tuple(values.size());
  for (const std::int64_t value : values) write.integer(static_cast<std::uint64_t>(value));
  write.end_tuple(values.size()).op(Op::stop);
  EXPECT_EQ(integers_in(stream), values);
}

TEST(DcpPickleWriter, ATupleHasItsItemsHoweverManyTheyAre) {
  for (const Shape& values : {Shape{}, Shape{7}, Shape{7, 8}, Shape{7, 8, 9}, Shape{6, 7, 8, 9}}) {
    std::string stream;
    PickleWriter(stream).begin().integers(values).op(Op::stop);
    std::vector<std::int64_t> expected;
    for (const std::uint64_t value : values) expected.push_back(static_cast<std::int64_t>(value));
    EXPECT_EQ(integers_in(stream), expected);
  }
}

}  // namespace
}  // namespace hfshard::format::dcp
