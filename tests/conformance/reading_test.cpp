// Every format of the table, and one that the product doesn't have, keeps the same promises to
// readers (catalog/checkpoint.h). writing_test.cpp tests those to writers.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "conformance/samples.h"
#include "conformance/tested_formats.h"
#include "format/formats.h"
#include "ops/read_piece.h"
#include "support/catch_error.h"
#include "support/checkpoint_builder.h"
#include "support/sizes.h"
#include "support/temp_dir.h"

#include "hfshard/hfshard.h"

namespace hfshard::conformance {
namespace {

class Reading : public testing::TestWithParam<const Format*> {
 protected:
  Reading() : samples_(make_samples(*GetParam(), dir_)) {}
  const Format& format() const { return *GetParam(); }
  const TempDir dir_;
  const std::vector<Sample> samples_;
};

std::uint64_t piece_bytes(const Catalog& catalog, std::uint32_t array) {
  return packed_bytes(catalog.tensors[array].dtype, catalog.grid_of(array).chunk.numel());
}

template <typename Visit>
void for_each_piece(const Catalog& catalog, const Visit& visit) {
  for (std::uint32_t array = 0; array < catalog.tensors.size(); ++array) {
    hfshard::for_each_chunk(
        chunk_counts(catalog.tensors[array].shape, catalog.grid_of(array).chunk),
        std::function<bool(const Shape&)>([&](const Shape& piece) {
          visit(array, piece);
          return true;
        }));
  }
}

// Reads a stored piece in steps that `next` gives. A step of 0 skips a byte. `steps` is the
// scratch's; it has exactly the required size.
template <typename Next>
std::string read_steps(const Checkpoint& opened, std::uint32_t array, const Shape& piece,
                       PieceSteps steps, const Next& next) {
  std::string out(piece_bytes(opened.catalog(), array), '?');
  std::vector<std::byte> scratch(opened.scratch_bytes(array, steps));
  const auto reader = opened.open_piece(array, piece, steps, scratch);
  auto left = std::as_writable_bytes(std::span(out));
  while (!left.empty()) {
    const std::size_t size = std::min<std::size_t>(left.size(), next(left.size()));
    if (size == 0) reader->skip(1);
    if (size > 0) reader->read(left.first(size));
    left = left.subspan(std::max<std::size_t>(size, 1));
  }
  return out;
}

std::string read_whole(const Checkpoint& opened, std::uint32_t array, const Shape& piece) {
  return read_steps(opened, array, piece, PieceSteps::whole_cells,
                    [](std::size_t left) { return left; });
}

std::string read_pieces(const Checkpoint& opened, std::uint32_t array) {
  const TensorInfo& info = opened.catalog().tensors[array];
  const Shape extent = opened.catalog().grid_of(array).chunk;
  if (info.is_whole()) {
    const bool none = chunk_counts(info.shape, extent).numel() == 0;
    Shape origin = info.shape;
    for (std::size_t d = 0; d < origin.rank(); ++d) origin[d] = 0;
    return none ? std::string() : read_whole(opened, array, origin);
  }
  std::string out(packed_bytes(info.dtype, info.shape.numel()), '?');
  std::vector<std::byte> scratch(row_major_scratch_bytes(opened, array));
  for_each_chunk(chunk_counts(info.shape, extent), [&](const Shape& piece) {
    std::string box(piece_bytes(opened.catalog(), array), '?');
    read_row_major(opened, array, piece, std::as_writable_bytes(std::span(box)), scratch);
    Shape origin = piece;
    for (std::size_t d = 0; d < piece.rank(); ++d) origin[d] *= extent[d];
    copy_box(out, info.shape, box, extent, origin, size_bits(info.dtype) / 8, /*back=*/true);
  });
  return out;
}

std::string read_rows(const CheckpointReader& opened, std::size_t array, std::uint64_t begin,
                      std::size_t bytes) {
  std::string out(bytes, '?');
  opened.read_rows(array, begin, std::as_writable_bytes(std::span(out)));
  return out;
}

// Returns the first error in reading all of it. Empty without one.
std::optional<Error> first_damage(const Sample& sample, std::size_t step) {
  try {
    const auto opened = open_tested(sample.path);
    for_each_piece(opened->catalog(), [&](std::uint32_t array, const Shape& piece) {
      if (step == 0) read_whole(*opened, array, piece);
      if (step > 0) {
        read_steps(*opened, array, piece, PieceSteps::any, [&](std::size_t) { return step; });
      }
    });
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

TEST_P(Reading, EveryArrayComesBack) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.what);
    const auto opened = open_tested(sample.path);
    for (const Expected& expected : sample.arrays) {
      SCOPED_TRACE(expected.name.substr(0, 60));
      const auto array = opened->catalog().find(expected.name);
      ASSERT_TRUE(array.has_value());
      const TensorInfo& info = opened->catalog().tensors[*array];
      EXPECT_EQ(info.dtype, expected.dtype);
      EXPECT_EQ(info.shape, expected.shape);
      EXPECT_TRUE(read_pieces(*opened, *array) == expected.bytes);
    }
  }
}

// The formats of the product's own table, which the library opens.
class LibraryReading : public Reading {};

// The library's functions for programs (hfshard/reader.h): all rows at once, each alone, and from
// each on.
TEST_P(LibraryReading, EveryRowComesBack) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.what);
    const CheckpointReader opened = open(sample.path);
    for (const Expected& expected : sample.arrays) {
      SCOPED_TRACE(expected.name.substr(0, 60));
      const auto array = opened.find(expected.name);
      ASSERT_TRUE(array.has_value());
      EXPECT_EQ(opened.info().arrays[*array].shape, expected.shape);
      EXPECT_EQ(opened.info().arrays[*array].size_bytes, expected.bytes.size());
      const std::uint64_t rows = expected.shape.rank() == 0 ? 1 : expected.shape[0];
      const std::size_t row = rows == 0 ? 0 : expected.bytes.size() / rows;
      EXPECT_TRUE(read_rows(opened, *array, 0, expected.bytes.size()) == expected.bytes);
      if (row * rows != expected.bytes.size() || size_bits(expected.dtype) < 8) continue;
      for (std::uint64_t begin = 0; row > 0 && begin < std::min<std::uint64_t>(rows, 50); ++begin) {
        EXPECT_TRUE(read_rows(opened, *array, begin, row) ==
                    expected.bytes.substr(begin * row, row))
            << begin;
        EXPECT_TRUE(read_rows(opened, *array, begin, (rows - begin) * row) ==
                    expected.bytes.substr(begin * row))
            << begin;
      }
    }
  }
}

TEST_P(LibraryReading, PiecesComeBackAndWhatIsNoneIsRefused) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.what);
    const auto inside = open_checkpoint(sample.path);
    const CheckpointReader opened = open(sample.path);
    for_each_piece(inside->catalog(), [&](std::uint32_t array, const Shape& place) {
      std::string wanted(piece_bytes(inside->catalog(), array), '?');
      std::vector<std::byte> scratch(row_major_scratch_bytes(*inside, array));
      read_row_major(*inside, array, place, std::as_writable_bytes(std::span(wanted)), scratch);
      std::string found(opened.piece_bytes(array), '!');
      const auto out = std::as_writable_bytes(std::span(found));
      EXPECT_TRUE(opened.has_piece(array, place));
      opened.read_piece(array, place, out);
      EXPECT_TRUE(found == wanted);
      Shape more = place;
      more.push_back(0);
      for (const auto& wrong : {std::function([&] { opened.read_piece(array, more, out); }),
                                std::function([&] { opened.read_piece(array, place, {}); }),
                                std::function([&] { opened.has_piece(array, more); })}) {
        EXPECT_EQ(catch_error(wrong).code(), ErrorCode::usage);
      }
    });
    const std::size_t none = opened.info().arrays.size();
    EXPECT_EQ(catch_error([&] { opened.piece_bytes(none); }).code(), ErrorCode::usage);
    for (std::size_t array = 0; array < none; ++array) {
      const StoredArray& of = opened.info().arrays[array];
      if (of.size_bytes == 0) continue;
      const std::uint64_t rows = of.shape.rank() == 0 ? 1 : of.shape[0];
      const auto from_last = [&] { read_rows(opened, array, rows, of.size_bytes / rows); };
      EXPECT_EQ(catch_error(from_last).code(), ErrorCode::usage) << of.name;
      const auto too_much = [&] { read_rows(opened, array, 0, of.size_bytes + 1); };
      EXPECT_EQ(catch_error(too_much).code(), ErrorCode::usage) << of.name;
    }
  }
}

TEST_P(Reading, StepsOfAnyLengthGiveTheWholePiece) {
  std::mt19937 random(41);
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.what);
    const auto opened = open_tested(sample.path);
    for_each_piece(opened->catalog(), [&](std::uint32_t array, const Shape& piece) {
      const std::string whole = read_whole(*opened, array, piece);
      for (const std::size_t most : {7U, 5000U, 200000U}) {
        if (whole.size() > 20000 * most) continue;
        EXPECT_TRUE(read_steps(*opened, array, piece, PieceSteps::any,
                               [&](std::size_t) { return 1 + random() % most; }) == whole)
            << opened->catalog().tensors[array].name.substr(0, 60) << " by " << most;
      }
    });
  }
}

TEST_P(Reading, WhatIsPassedOverIsLeftOutAndNothingElse) {
  std::mt19937 random(43);
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.what);
    const auto opened = open_tested(sample.path);
    for_each_piece(opened->catalog(), [&](std::uint32_t array, const Shape& piece) {
      const std::string whole = read_whole(*opened, array, piece);
      const std::size_t from = random() % whole.size();
      const std::size_t size = 1 + random() % (whole.size() - from);
      std::string part(size, '?');
      std::vector<std::byte> scratch(opened->scratch_bytes(array, PieceSteps::any));
      const auto reader = opened->open_piece(array, piece, PieceSteps::any, scratch);
      reader->skip(from);
      reader->read(std::as_writable_bytes(std::span(part)));
      reader->skip(whole.size() - from - size);
      EXPECT_TRUE(part == whole.substr(from, size))
          << opened->catalog().tensors[array].name.substr(0, 60) << " from " << from;
    });
  }
}

TEST_P(Reading, WhereChecksumsAreNoFlippedByteIsRead) {
  std::mt19937 random(47);
  for (const Sample& sample : samples_) {
    if (!sample.has_checksums) continue;
    SCOPED_TRACE(sample.what);
    const auto opened = open_tested(sample.path);
    for (const std::string& file : sample.data_files) {
      const std::string good = read_text(file);
      for (int i = 0; i < cases(12); ++i) {
        std::string bad = good;
        const std::size_t at = random() % good.size();
        bad[at] = static_cast<char>(static_cast<unsigned char>(bad[at]) ^ (1U << random() % 8));
        write_text(file, bad);
        for (const std::size_t step : {std::size_t{0}, std::size_t{4096}}) {
          const auto found = first_damage(sample, step);
          const bool is_gap = good[at] == 0;  // bytes between chunks don't belong to one
          if (!found && is_gap) continue;
          ASSERT_TRUE(found.has_value()) << file << " at " << at << " by " << step;
          EXPECT_EQ(found->code(), ErrorCode::corrupt);
          EXPECT_EQ(found->file(), file);
          EXPECT_FALSE(found->tensor().empty());
          ASSERT_TRUE(found->range().has_value());
          EXPECT_LE(found->range()->begin, at);
          EXPECT_GT(found->range()->end, at);
        }
      }
      write_text(file, good);
    }
    EXPECT_FALSE(first_damage(sample, 0).has_value());
  }
}

TEST_P(Reading, AFileThatIsCutOrGoneIsNamed) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.what);
    for (const std::string& file : sample.data_files) {
      const std::string good = read_text(file);
      write_text(file, good.substr(0, good.size() - 1));
      auto found = first_damage(sample, 0);
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->code(), ErrorCode::corrupt);
      EXPECT_EQ(found->file(), file);
      std::filesystem::remove(file);
      found = first_damage(sample, 0);
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->code(), ErrorCode::not_found);
      write_text(file, good);
    }
  }
}

TEST_P(Reading, AFileThatIsCutWhileItIsOpenNamesTheArray) {
  for (const Sample& sample : samples_) {
    SCOPED_TRACE(sample.what);
    for (const std::string& file : sample.data_files) {
      const std::string good = read_text(file);
      const auto opened = open_tested(sample.path);
      std::filesystem::resize_file(file, 10);
      std::set<std::string> named;
      for_each_piece(opened->catalog(), [&](std::uint32_t array, const Shape& piece) {
        try {
          read_whole(*opened, array, piece);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::corrupt);
          EXPECT_EQ(error.file(), file);
          EXPECT_EQ(error.tensor(), opened->catalog().tensors[array].name);
          named.insert(error.tensor());
        }
      });
      EXPECT_FALSE(named.empty());
      write_text(file, good);
    }
  }
}

TEST_P(Reading, PiecesAreThereWithinTheGridAndNowhereElse) {
  for (const Sample& sample : samples_) {
    const auto opened = open_tested(sample.path);
    for_each_piece(opened->catalog(), [&](std::uint32_t array, const Shape& piece) {
      EXPECT_TRUE(opened->has_piece(array, piece));
      for (std::size_t d = 0; d < piece.rank(); ++d) {
        Shape outside = piece;
        outside[d] = UINT64_MAX;
        EXPECT_FALSE(opened->has_piece(array, outside));
      }
    });
  }
}

TEST_P(Reading, EachCheckpointIsRecognisedByItsOwnFormatOnly) {
  EXPECT_FALSE(format().recognise(dir_ / "nothing").has_value());
  write_text(dir_ / "other/7", "");
  EXPECT_FALSE(format().recognise(dir_ / "other").has_value());
  EXPECT_FALSE(format().recognise(dir_ / "other/7").has_value());
  for (const Sample& sample : samples_) {
    for (const Format* each : tested_formats()) {
      EXPECT_EQ(each->recognise(sample.path).has_value(), each == &format())
          << sample.what << " by " << each->name();
    }
    EXPECT_EQ(format().recognise(sample.path).value().directory, sample.path);
  }
}

// A format that keeps nothing says so. All others have samples.
TEST_P(Reading, AFormatWithoutSamplesKeepsNothing) {
  if (!samples_.empty()) return;
  EXPECT_EQ(catch_error([&] { format().open(dir_.path()); }).code(), ErrorCode::unsupported);
}

TEST_P(Reading, AFormatThatIsNotWrittenRefusesEveryQuestionOfAWriter) {
  const auto names = target_names();
  const bool in_table = std::ranges::count(all_formats(), &format()) == 1;
  EXPECT_EQ(std::ranges::count(names, format().name()), in_table && format().writes() ? 1 : 0);
  if (format().writes()) return;
  const Leaf leaf{{"w", DType::f32, {4}}, {}, {}};
  const Grid grid{{4}, {4}, {4}};
  for (const Error& error : {catch_error([&] { format().form(leaf, grid, {}); }),
                             catch_error([&] { format().encode({}, {}, {}, {}); }),
                             catch_error([&] { format().layout(); }), catch_error([&] {
                               format().metadata({}, CheckpointBuilder(format_of("")));
                             })}) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LibraryReading,
                         testing::ValuesIn(all_formats().begin(), all_formats().end()),
                         [](const auto& tested) { return std::string(tested.param->name()); });
INSTANTIATE_TEST_SUITE_P(Formats, Reading, testing::ValuesIn(tested_formats()),
                         [](const auto& tested) { return std::string(tested.param->name()); });

}  // namespace
}  // namespace hfshard::conformance
