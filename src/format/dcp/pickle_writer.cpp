#include "format/dcp/pickle_writer.h"

#include <array>
#include <bit>
#include <limits>

#include "base/coding.h"

namespace hfshard::format::dcp {

template <typename T>
void PickleWriter::number(T value) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  out_ += as_text(bytes);
}

PickleWriter& PickleWriter::op(Op op) {
  out_ += static_cast<char>(op);
  return *this;
}

PickleWriter& PickleWriter::begin() {
  op(Op::proto);
  number(std::uint8_t{2});
  return *this;
}

PickleWriter& PickleWriter::global(std::string_view module, std::string_view name) {
  op(Op::global);
  out_ += module;
  out_ += '\n';
  out_ += name;
  out_ += '\n';
  return *this;
}

PickleWriter& PickleWriter::text(std::string_view text) {
  op(Op::bin_unicode);
  number(static_cast<std::uint32_t>(text.size()));
  out_ += text;
  return *this;
}

PickleWriter& PickleWriter::integer(std::uint64_t value) {
  if (value <= std::numeric_limits<std::uint8_t>::max()) {
    op(Op::bin_int1);
    number(static_cast<std::uint8_t>(value));
  } else if (value <= std::numeric_limits<std::uint16_t>::max()) {
    op(Op::bin_int2);
    number(static_cast<std::uint16_t>(value));
  } else if (value <= std::numeric_limits<std::int32_t>::max()) {
    op(Op::bin_int);
    number(static_cast<std::uint32_t>(value));
  } else {
    // Two's complement, so the highest bit stays free.
    const auto bytes = static_cast<std::uint8_t>(std::bit_width(value) / 8 + 1);
    op(Op::long1);
    number(bytes);
    for (int i = 0; i < bytes; ++i)
      out_ += static_cast<char>(i < 8 ? (value >> (8 * i)) & 0xffU : 0);
  }
  return *this;
}

namespace {

constexpr std::array<Op, 4> kShortTuples = {Op::empty_tuple, Op::tuple1, Op::tuple2, Op::tuple3};

}  // namespace

PickleWriter& PickleWriter::begin_tuple(std::size_t items) {
  return items < kShortTuples.size() ? *this : op(Op::mark);
}

PickleWriter& PickleWriter::end_tuple(std::size_t items) {
  return op(items < kShortTuples.size() ? kShortTuples[items] : Op::tuple);
}

PickleWriter& PickleWriter::integers(const Shape& values) {
  begin_tuple(values.rank());
  for (const std::uint64_t value : values) integer(value);
  return end_tuple(values.rank());
}

PickleWriter& PickleWriter::put(std::uint32_t at) {
  if (at <= std::numeric_limits<std::uint8_t>::max()) {
    op(Op::bin_put);
    number(static_cast<std::uint8_t>(at));
  } else {
    op(Op::long_bin_put);
    number(at);
  }
  return *this;
}

PickleWriter& PickleWriter::get(std::uint32_t at) {
  if (at <= std::numeric_limits<std::uint8_t>::max()) {
    op(Op::bin_get);
    number(static_cast<std::uint8_t>(at));
  } else {
    op(Op::long_bin_get);
    number(at);
  }
  return *this;
}

}  // namespace hfshard::format::dcp
