#include "service/damage.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "format/formats.h"
#include "service/describe.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"

namespace hfshard {
namespace {

// A checkpoint with one [4, 6] leaf in chunks of [2, 3], whose chunks fail as requested.
class FakeCheckpoint final : public Checkpoint {
 public:
  enum class State { good, missing, corrupt, refused, bug };

  struct Reader final : PieceReader {
    Reader(State of, std::size_t bytes) : state(of), part_bytes(bytes) {}
    void read(std::span<std::byte> out) override {
      EXPECT_EQ(out.size(), part_bytes);
      switch (state) {
        case State::corrupt:
          throw Error(ErrorCode::corrupt, "wrong checksum")
              .in_file("checkpoint/d/0")
              .at({4, 10}, 20);
        case State::refused:
          throw Error(ErrorCode::io, "cannot read").in_file("checkpoint/d/1");
        case State::bug:
          throw Error(ErrorCode::internal, "a bug");
        default:
          return;
      }
    }
    void skip(std::uint64_t /*bytes*/) override {}
    State state;
    std::size_t part_bytes;
  };

  FakeCheckpoint() {
    TensorInfo leaf;
    leaf.name = "a.b";
    leaf.dtype = DType::u8;
    leaf.cut = 0;
    catalog_.tensors.push_back(leaf);
    catalog_.cuts.resize(1);
    shape({4, 6}, {2, 3});
  }

  FakeCheckpoint& set(std::size_t chunk, State state) {
    states_[chunk] = state;
    return *this;
  }
  FakeCheckpoint& shape(const Shape& shape, const Shape& chunk) {
    catalog_.tensors[0].shape = shape;
    catalog_.cuts[0].grid = {chunk, chunk, chunk};
    return *this;
  }

  // Sets how its chunks will be read.
  FakeCheckpoint& read_in(PieceSteps steps, std::size_t part_bytes) {
    steps_ = steps;
    part_bytes_ = part_bytes;
    return *this;
  }

  const Catalog& catalog() const override { return catalog_; }
  bool has_piece(std::uint32_t /*leaf*/, const Shape& chunk) const override {
    return state(chunk) != State::missing;
  }
  std::optional<PiecePlace> find_piece(std::uint32_t /*leaf*/, const Shape& chunk) const override {
    if (chunk.rank() < 2) return std::nullopt;
    return PiecePlace{fmt::format("checkpoint/d/key-{}-{}", chunk[0], chunk[1]), std::nullopt};
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t /*leaf*/, const Shape& chunk,
                                          PieceSteps steps,
                                          std::span<std::byte> scratch) const override {
    EXPECT_EQ(scratch.size(), 10U);
    EXPECT_EQ(steps, steps_);
    return std::make_unique<Reader>(state(chunk), part_bytes_);
  }
  std::uint64_t scratch_bytes(std::uint32_t /*leaf*/, PieceSteps /*steps*/) const override {
    return 10;
  }

 private:
  State state(const Shape& chunk) const {
    const std::uint64_t index = chunk.rank() < 2 ? chunk[0] : chunk[0] * 2 + chunk[1];
    return index < states_.size() ? states_[index] : State::missing;
  }
  Catalog catalog_;
  PieceSteps steps_ = PieceSteps::whole_cells;
  std::size_t part_bytes_ = 6;
  std::vector<State> states_ = std::vector<State>(4, State::good);
};

using State = FakeCheckpoint::State;

Reporter silent;

DamageList read_all(const FakeCheckpoint& fake) { return read_chunks(fake, "checkpoint", silent); }

TEST(FindMissingChunks, CountsAllAndListsTheFirst) {
  FakeCheckpoint fake;
  EXPECT_EQ(find_missing_chunks(fake, "checkpoint", 20).count, 0U);
  fake.set(1, State::missing).set(2, State::missing).set(3, State::missing);
  const DamageList found = find_missing_chunks(fake, "checkpoint", 2);
  EXPECT_EQ(found.count, 3U);
  EXPECT_EQ(found.checked, 4U);
  ASSERT_EQ(found.items.size(), 2U);
  EXPECT_EQ(found.items[0].tensor, "a.b");
  EXPECT_EQ(found.items[0].chunk, (Shape{0, 1}));
  EXPECT_EQ(found.items[1].chunk, (Shape{1, 0}));
}

TEST(FindMissingChunks, CountsOnlyArraysThatTheFilterTakes) {
  FakeCheckpoint fake;
  fake.set(1, State::missing);
  const DamageList taken = find_missing_chunks(fake, "checkpoint", 20, "a.*");
  EXPECT_EQ(taken.checked, 4U);
  EXPECT_EQ(taken.count, 1U);
  const DamageList none = find_missing_chunks(fake, "checkpoint", 20, "b.*");
  EXPECT_EQ(none.checked, 0U);
  EXPECT_EQ(none.count, 0U);
}

TEST(FindMissingChunks, GivesUpOnAGridThatADamagedIndexMadeUp) {
  FakeCheckpoint fake;
  fake.shape({std::uint64_t{1} << 40, std::uint64_t{1} << 20}, {1, 1});
  const DamageList found = find_missing_chunks(fake, "checkpoint", 20);
  EXPECT_TRUE(found.more);
  EXPECT_EQ(found.count, kMaxMissing);
  EXPECT_EQ(found.items.size(), 20U);
}

TEST(FindMissingChunks, AnEmptyLeafHasNone) {
  FakeCheckpoint fake;
  fake.shape({0, 6}, {1, 3});
  EXPECT_EQ(find_missing_chunks(fake, "checkpoint", 20).checked, 0U);
}

TEST(ReadChunks, GoesOnAfterDamageAndSaysWhereItIs) {
  FakeCheckpoint fake;
  fake.set(0, State::corrupt).set(1, State::missing).set(3, State::refused);
  const DamageList found = read_all(fake);
  ASSERT_EQ(found.items.size(), 3U);
  EXPECT_EQ(found.items[0].code, ErrorCode::corrupt);
  EXPECT_EQ(found.items[0].file, "d/0");
  EXPECT_EQ(found.items[0].range, (ByteRange{4, 10}));
  EXPECT_EQ(found.items[1].code, ErrorCode::not_found);
  EXPECT_EQ(found.items[2].code, ErrorCode::io);
  EXPECT_EQ(found.items[2].chunk, (Shape{1, 1}));
  EXPECT_EQ(found.count, 3U);
}

// Only then one buffer holds the whole cell.
TEST(ReadChunks, ReadsCellsUpToALimitAtOnceAndLargerOnesInParts) {
  const std::size_t part = std::size_t{4} << 20;
  FakeCheckpoint fake;
  fake.shape({kWholeCellBytes}, {kWholeCellBytes});
  fake.read_in(PieceSteps::whole_cells, kWholeCellBytes);
  EXPECT_EQ(read_all(fake).count, 0U);
  fake.shape({kWholeCellBytes + part}, {kWholeCellBytes + part});
  fake.read_in(PieceSteps::any, part);
  EXPECT_EQ(read_all(fake).count, 0U);
}

TEST(ReadChunks, ABugIsNoDamage) {
  FakeCheckpoint fake;
  fake.set(2, State::bug);
  EXPECT_EQ(catch_error([&] { read_all(fake); }).code(), ErrorCode::internal);
}

TEST(ReadChunks, FilesAreNamedBelowTheRootHoweverItIsWritten) {
  FakeCheckpoint fake;
  fake.set(0, State::corrupt);
  for (const char* root : {"checkpoint", "checkpoint/", "checkpoint//"}) {
    EXPECT_EQ(read_chunks(fake, root, silent).items.at(0).file, "d/0") << root;
  }
  for (const char* root : {"check", "checkpoint/d/0", "other"}) {
    EXPECT_EQ(read_chunks(fake, root, silent).items.at(0).file, "checkpoint/d/0");
  }
}

TEST(ReadChunks, ReadsEveryFileAndLargeTensorsToTheirEnd) {
  const TempDir dir;
  const std::string second = dir / "model-00002-of-00002.safetensors";
  SafetensorsBuilder().tensor("a", DType::u8, {8}).write(dir / "model-00001-of-00002.safetensors");
  SafetensorsBuilder().tensor("b", DType::u8, {9 << 20}).write(second);
  const std::uint64_t size = std::filesystem::file_size(second);
  const auto damaged = [&](const Checkpoint& opened) {
    return read_chunks(opened, dir.path(), silent).items;
  };
  EXPECT_TRUE(damaged(*open_checkpoint(dir.path())).empty());
  const auto before_cut = open_checkpoint(dir.path());
  std::filesystem::resize_file(second, size - 1);
  const auto cut = damaged(*before_cut);
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_EQ(cut[0].tensor, "b");
  std::filesystem::resize_file(second, size);
  const auto before_removal = open_checkpoint(dir.path());
  std::filesystem::remove(second);
  const auto gone = damaged(*before_removal);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].tensor, "b");
  EXPECT_EQ(gone[0].file, "model-00002-of-00002.safetensors");
}

TEST(ReadChunks, ListsEveryTensorOfAFileThatWasCut) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::f32, {64})
      .tensor("b", DType::f32, {64})
      .tensor("c", DType::f32, {64})
      .write(dir / "model.safetensors");
  const auto read = [&](const Checkpoint& opened) {
    return read_chunks(opened, dir.path(), silent);
  };
  const auto opened = open_checkpoint(dir.path());
  EXPECT_EQ(read(*opened).count, 0U);
  EXPECT_EQ(read(*opened).checked, 3U);
  const std::uint64_t whole = opened->catalog().files[0].size_bytes;
  const auto fresh = open_checkpoint(dir.path());
  std::filesystem::resize_file(dir / "model.safetensors", whole - 300);
  const DamageList found = read(*fresh);
  EXPECT_EQ(found.unit, "tensors");
  ASSERT_EQ(found.items.size(), 2U);
  EXPECT_EQ(found.items[0].tensor, "b");
  EXPECT_EQ(found.items[0].file, "model.safetensors");
  EXPECT_FALSE(found.items[0].chunk.has_value());
  EXPECT_EQ(found.items[1].tensor, "c");
  std::filesystem::resize_file(dir / "model.safetensors", whole);
  const auto last = open_checkpoint(dir.path());
  std::filesystem::remove(dir / "model.safetensors");
  EXPECT_EQ(read(*last).count, 3U);
}

TEST(AddDamagedObjects, CountsOnlyThoseThatTheFilterTakes) {
  const TempDir dir;
  TorchCheckpoint torch;
  torch.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
  torch.object("a.x", "one").object("b.x", "two").write(dir.path());
  const auto opened = open_checkpoint(dir.path());
  std::filesystem::remove(dir / TorchCheckpoint::kDataFile);
  DamageList found;
  add_damaged_objects(*opened, dir.path(), "b.*", found);
  EXPECT_EQ(found.checked, 1U);
  ASSERT_EQ(found.count, 1U);
  EXPECT_EQ(found.items.at(0).tensor, "b.x");
  EXPECT_EQ(found.items.at(0).code, ErrorCode::not_found);
  EXPECT_FALSE(found.items.at(0).chunk);
  EXPECT_EQ(found.items.at(0).file, TorchCheckpoint::kDataFile);
}

TEST(ConfigFacts, AreThoseThatAreThere) {
  Catalog catalog;
  EXPECT_TRUE(config_facts(catalog).as_object().empty());
  catalog.config_text = R"({"model_type": "qwen3", "hidden_size": 3})";
  EXPECT_EQ(dump_json(config_facts(catalog)), R"({"family":"qwen3","model_type":"qwen3"})");
}

// Counts the bytes that it is told of.
class Counting final : public Reporter {
 public:
  void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) override {
    total += total_bytes;
    done += already_done_bytes;
  }
  void advanced(std::uint64_t bytes) override { read += bytes; }
  std::uint64_t total = 0;
  std::uint64_t done = 0;
  std::uint64_t read = 0;
};

TEST(ReadChunks, ProgressCountsTheBytesOfTheArraysThatTheFilterTakes) {
  FakeCheckpoint fake;
  fake.set(1, State::missing);
  Counting all;
  EXPECT_EQ(read_chunks(fake, "checkpoint", all, "a.*").checked, 4U);
  EXPECT_EQ(all.total, 24U);
  EXPECT_EQ(all.done, 0U);
  EXPECT_EQ(all.read, 18U) << "without the missing chunk";
  Counting others;
  const DamageList found = read_chunks(fake, "checkpoint", others, "b.*");
  EXPECT_EQ(others.total, 0U);
  EXPECT_EQ(others.read, 0U);
  EXPECT_EQ(found.checked, 0U);
  EXPECT_EQ(found.count, 0U);
}

TEST(ReadChunks, AMissingChunkHasTheFileThatItsKeyNames) {
  FakeCheckpoint fake;
  fake.set(2, State::missing).set(3, State::corrupt);
  const DamageList found = read_all(fake);
  ASSERT_EQ(found.items.size(), 2U);
  EXPECT_EQ(found.items[0].tensor, "a.b");
  EXPECT_EQ(found.items[0].chunk, (Shape{1, 0}));
  EXPECT_EQ(found.items[0].message, "the chunk is missing: its key has no data");
  EXPECT_EQ(found.items[0].file, "d/key-1-0");
  EXPECT_FALSE(found.items[0].range);
  EXPECT_EQ(found.items[1].tensor, "a.b");
  EXPECT_EQ(found.items[1].chunk, (Shape{1, 1}));
  EXPECT_EQ(found.items[1].message, "wrong checksum");
  const DamageList keys = find_missing_chunks(fake, "checkpoint", 20);
  ASSERT_EQ(keys.items.size(), 1U);
  EXPECT_EQ(keys.items[0].file, "d/key-1-0");
  EXPECT_EQ(keys.items[0].code, ErrorCode::not_found);
}

// The names are in another order than the data.
TEST(ReadChunks, DamageIsListedInTheOrderOfTheFiles) {
  const TempDir dir;
  const std::string first = dir / "model-00001-of-00002.safetensors";
  const std::string second = dir / "model-00002-of-00002.safetensors";
  SafetensorsBuilder().tensor("z", DType::u8, {8}).tensor("m", DType::u8, {8}).write(first);
  SafetensorsBuilder().tensor("a", DType::u8, {8}).write(second);
  const auto opened = open_checkpoint(dir.path());
  std::filesystem::remove(first);
  std::filesystem::remove(second);
  std::vector<std::string> names;
  for (const Damage& item : read_chunks(*opened, dir.path(), silent).items)
    names.push_back(item.tensor);
  EXPECT_EQ(names, (std::vector<std::string>{"z", "m", "a"}));
}

TEST(AddDamagedObjects, TheUnitNamesObjectsOnlyIfTheCheckpointHasAny) {
  const TempDir dir;
  for (const bool has_objects : {false, true}) {
    TorchCheckpoint torch;
    torch.tensor("w", DType::u8, {4}).part({0}, {4}, "abcd", false);
    if (has_objects) torch.object("a", "one").object("b", "two");
    torch.write(dir.path());
    const auto opened = open_checkpoint(dir.path());
    DamageList found = read_chunks(*opened, dir.path(), silent);
    EXPECT_EQ(found.unit, "chunks");
    add_damaged_objects(*opened, dir.path(), "", found);
    EXPECT_EQ(found.unit, has_objects ? "chunks and objects" : "chunks");
    EXPECT_EQ(found.checked, has_objects ? 3U : 1U);
    EXPECT_EQ(found.count, 0U);
  }
}

}  // namespace
}  // namespace hfshard
