#include "format/torch/strided_copy.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "support/memory_source.h"

namespace hfshard::format::torch {
namespace {

// Copies a box element by element.
void copy_plainly(const std::string& file, std::uint64_t from, const std::vector<CopyAxis>& axes,
                  std::size_t axis, std::uint64_t to, std::string& out) {
  if (axis == axes.size()) {
    out[to] = file[from];
    return;
  }
  for (std::uint64_t i = 0; i < axes[axis].count; ++i) {
    copy_plainly(file, from + i * axes[axis].from_step, axes, axis + 1, to + i * axes[axis].to_step,
                 out);
  }
}

// Counts reads and their longest.
class CountedSource final : public Source {
 public:
  explicit CountedSource(std::string bytes) : inner_(std::move(bytes)) {}
  std::uint64_t size_bytes() const override { return inner_.size_bytes(); }
  const std::string& name() const override { return inner_.name(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    longest = std::max<std::uint64_t>(longest, out.size());
    inner_.read_at(offset, out);
  }
  mutable std::uint64_t reads = 0;
  mutable std::uint64_t longest = 0;

 private:
  MemorySource inner_;
};

std::string any_bytes(std::size_t size) {
  std::mt19937 random(3);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

TEST(StridedCopy, EveryBoxIsCopiedAsElementByElement) {
  std::mt19937 random(11);
  const std::string file = any_bytes(std::size_t{1} << 20);
  const CountedSource source(file);
  const auto upto = [&](std::uint64_t most) { return random() % most; };
  for (int round = 0; round < 400; ++round) {
    std::vector<CopyAxis> axes;
    std::uint64_t to_step = 1;
    std::uint64_t last = 0;
    const std::uint64_t unit = std::uint64_t{1} << upto(4);
    axes.push_back({unit, 1, 1});
    to_step = unit;
    for (std::uint64_t rank = upto(4); rank > 0; --rank) {
      const std::uint64_t count = 1 + upto(30);
      const std::uint64_t step = upto(5) == 0 ? 0 : unit * (1 + upto(upto(2) == 0 ? 8 : 300));
      last += (count - 1) * step;
      axes.push_back({count, step, to_step});
      to_step *= count;
    }
    std::ranges::shuffle(axes, random);
    const std::uint64_t from = upto(file.size() - last - unit);
    std::string wanted(to_step, '\0');
    copy_plainly(file, from, axes, 0, 0, wanted);
    for (const bool is_far : {false, true}) {
      std::string found(to_step, '\0');
      copy_strided(source, is_far, from, axes, std::as_writable_bytes(std::span(found)));
      ASSERT_EQ(found, wanted) << "round " << round;
    }
  }
  EXPECT_LE(source.longest, kWindowBytes);
}

// 64 of 4096 columns: each row needs 256 of 16384 bytes, too few for a window over several rows.
TEST(StridedCopy, SparseRunsAreReadOneByOneAndDenseOnesTogether) {
  const CountedSource source(any_bytes(std::size_t{4} << 20));
  std::string out(64 * 1024, '\0');
  const auto to = std::as_writable_bytes(std::span(out));
  copy_strided(source, false, 0, {{64, 16384, 256}, {256, 1, 1}}, to.first(64 * 256));
  EXPECT_EQ(source.reads, 64U);
  source.reads = 0;
  copy_strided(source, true, 0, {{64, 16384, 256}, {256, 1, 1}}, to.first(64 * 256));
  EXPECT_EQ(source.reads, 1U) << "over a network, what is between comes along";
  source.reads = 0;
  copy_strided(source, false, 0, {{64, 2048, 1024}, {1024, 1, 1}}, to);
  EXPECT_EQ(source.reads, 1U);
}

TEST(StridedCopy, ABoxLongerThanAWindowIsReadInSeveral) {
  const std::string file = any_bytes(std::size_t{3} << 20);
  const CountedSource source(file);
  const std::vector<CopyAxis> axes{{1200, 2048, 1024}, {1024, 1, 1}};
  std::string wanted(std::size_t{1200} * 1024, '\0');
  copy_plainly(file, 5, axes, 0, 0, wanted);
  std::string out(wanted.size(), '\0');
  copy_strided(source, false, 5, axes, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, wanted);
  EXPECT_GT(source.reads, 1U);
  EXPECT_LE(source.longest, kWindowBytes);
}

// A window ends with its axis, which the outer one repeats.
TEST(StridedCopy, SeveralBoxesLongerThanAWindowAreCopied) {
  const std::string file = any_bytes(std::size_t{5} << 20);
  const CountedSource source(file);
  const std::vector<CopyAxis> axes{
      {2, 1200 * 2048 + 64, 1200 * 1024}, {1200, 2048, 1024}, {1024, 1, 1}};
  std::string wanted(std::size_t{2} * 1200 * 1024, '\0');
  copy_plainly(file, 5, axes, 0, 0, wanted);
  std::string out(wanted.size(), '\0');
  copy_strided(source, false, 5, axes, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, wanted);
  EXPECT_LE(source.longest, kWindowBytes);
}

TEST(StridedCopy, RunsLongerThanAWindowAreReadOneByOne) {
  const std::string file = any_bytes(std::size_t{4} << 20);
  const CountedSource source(file);
  const std::uint64_t run = kWindowBytes + 1;
  std::string out(2 * run, '\0');
  copy_strided(source, true, 0, {{2, run + 1, run}, {run, 1, 1}},
               std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, file.substr(0, run) + file.substr(run + 1, run));
  EXPECT_EQ(source.reads, 2U);
}

TEST(StridedCopy, ALongRunIsReadWhereItGoes) {
  const std::string file = any_bytes(std::size_t{3} << 20);
  const CountedSource source(file);
  std::string out(std::size_t{2} << 20, '\0');
  copy_strided(
      source, false, 5,
      {{2, std::uint64_t{1} << 20, std::uint64_t{1} << 20}, {std::uint64_t{1} << 20, 1, 1}},
      std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, file.substr(5, out.size()));
  EXPECT_EQ(source.reads, 1U);
}

}  // namespace
}  // namespace hfshard::format::torch
