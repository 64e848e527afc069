#include "tool/inspect.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "tool/progress.h"

namespace hfshard {
namespace {

// A checkpoint of one [4, 6] leaf in chunks of [2, 3], whose chunks fail as told.
class FakeCheckpoint final : public OpenedCheckpoint {
 public:
  enum class State { good, missing, corrupt, refused, bug };

  FakeCheckpoint() {
    OpenedLeaf leaf;
    leaf.path = "a.b";
    leaf.dtype = DType::u8;
    leaf.shape = {4, 6};
    leaf.chunk_shape = leaf.inner_shape = {2, 3};
    leaves_.push_back(leaf);
  }

  FakeCheckpoint& set(std::size_t chunk, State state) {
    states_[chunk] = state;
    return *this;
  }
  FakeCheckpoint& shape(const Shape& shape, const Shape& chunk) {
    leaves_[0].shape = shape;
    leaves_[0].chunk_shape = leaves_[0].inner_shape = chunk;
    return *this;
  }

  const std::vector<OpenedLeaf>& leaves() const override { return leaves_; }
  const Json& custom_metadata() const override { return custom_; }
  bool has_chunk(std::uint32_t /*leaf*/, const Shape& chunk) const override {
    return state(chunk) != State::missing;
  }
  void read_chunk(std::uint32_t /*leaf*/, const Shape& chunk, std::span<std::byte> out,
                  std::span<std::byte> scratch) const override {
    EXPECT_EQ(out.size(), 6U);
    EXPECT_EQ(scratch.size(), 10U);
    switch (state(chunk)) {
      case State::corrupt:
        throw Error(ErrorCode::corrupt, "wrong checksum").in_file("checkpoint/d/0").at({4, 10}, 20);
      case State::refused:
        throw Error(ErrorCode::io, "cannot read").in_file("checkpoint/d/1");
      case State::bug:
        throw Error(ErrorCode::internal, "a bug");
      default:
        return;
    }
  }
  std::uint64_t scratch_bytes(std::uint32_t /*leaf*/) const override { return 10; }

 private:
  State state(const Shape& chunk) const {
    const std::uint64_t index = chunk[0] * 2 + chunk[1];
    return index < states_.size() ? states_[index] : State::missing;
  }
  std::vector<OpenedLeaf> leaves_;
  std::vector<State> states_ = std::vector<State>(4, State::good);
  Json custom_;
};

using State = FakeCheckpoint::State;

DamageList read_all(const FakeCheckpoint& fake) {
  return read_chunks(fake, "checkpoint", *make_progress(true));
}

TEST(FindMissingChunks, CountsAllAndListsTheFirst) {
  FakeCheckpoint fake;
  EXPECT_EQ(find_missing_chunks(fake, 20).count, 0U);
  fake.set(1, State::missing).set(2, State::missing).set(3, State::missing);
  const DamageList found = find_missing_chunks(fake, 2);
  EXPECT_EQ(found.count, 3U);
  EXPECT_EQ(found.checked, 4U);
  ASSERT_EQ(found.items.size(), 2U);
  EXPECT_EQ(found.items[0].tensor, "a.b");
  EXPECT_EQ(found.items[0].chunk, (Shape{0, 1}));
  EXPECT_EQ(found.items[1].chunk, (Shape{1, 0}));
}

TEST(FindMissingChunks, GivesUpOnAGridThatADamagedIndexMadeUp) {
  FakeCheckpoint fake;
  fake.shape({std::uint64_t{1} << 40, std::uint64_t{1} << 20}, {1, 1});
  const DamageList found = find_missing_chunks(fake, 20);
  EXPECT_TRUE(found.more);
  EXPECT_EQ(found.count, kMostMissing);
  EXPECT_EQ(found.items.size(), 20U);
}

TEST(FindMissingChunks, AnEmptyLeafHasNone) {
  FakeCheckpoint fake;
  fake.shape({0, 6}, {1, 3});
  EXPECT_EQ(find_missing_chunks(fake, 20).checked, 0U);
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

TEST(ReadChunks, ABugIsNoDamage) {
  FakeCheckpoint fake;
  fake.set(2, State::bug);
  EXPECT_EQ(catch_error([&] { read_all(fake); }).code(), ErrorCode::internal);
}

TEST(ReadTensors, ListsEveryTensorOfAFileThatWasCut) {
  const TempDir dir;
  SafetensorsBuilder()
      .tensor("a", DType::f32, {64})
      .tensor("b", DType::f32, {64})
      .tensor("c", DType::f32, {64})
      .write(dir / "model.safetensors");
  const Catalog catalog = open_catalog(dir.path());
  EXPECT_EQ(read_tensors(catalog, *make_progress(true)).count, 0U);
  std::filesystem::resize_file(dir / "model.safetensors", catalog.files[0].size_bytes - 300);
  const DamageList found = read_tensors(catalog, *make_progress(true));
  ASSERT_EQ(found.items.size(), 2U);
  EXPECT_EQ(found.items[0].tensor, "b");
  EXPECT_EQ(found.items[0].file, "model.safetensors");
  EXPECT_EQ(found.items[1].tensor, "c");
  std::filesystem::remove(dir / "model.safetensors");
  EXPECT_EQ(read_tensors(catalog, *make_progress(true)).count, 3U);
}

TEST(IsOrbax, DecidesByWhatLiesInTheDirectory) {
  const TempDir dir;
  EXPECT_FALSE(is_orbax(dir / "nothing"));
  write_text(dir / "hf/model.safetensors", "");
  write_text(dir / "hf/0/x", "");
  EXPECT_FALSE(is_orbax(dir / "hf"));
  EXPECT_FALSE(is_orbax(dir / "hf/model.safetensors"));
  write_text(dir / "root/12/items/manifest.ocdbt", "");
  write_text(dir / "root/hf/model.safetensors.index.json", "");
  EXPECT_TRUE(is_orbax(dir / "root"));
  EXPECT_TRUE(is_orbax(dir / "root/12"));
  EXPECT_TRUE(is_orbax(dir / "root/12/items"));
  write_text(dir / "flat/_CHECKPOINT_METADATA", "{}");
  EXPECT_TRUE(is_orbax(dir / "flat"));
  write_text(dir / "unfinished/0.orbax-checkpoint-tmp/x", "");
  EXPECT_TRUE(is_orbax(dir / "unfinished"));
  write_text(dir / "file/7", "");
  EXPECT_FALSE(is_orbax(dir / "file"));
}

TEST(ConfigFacts, AreThoseThatAreThere) {
  Catalog catalog;
  EXPECT_TRUE(config_facts(catalog).as_object().empty());
  catalog.config_text = R"({"model_type": "qwen3", "hidden_size": 3})";
  EXPECT_EQ(dump_json(config_facts(catalog)), R"({"family":"qwen3","model_type":"qwen3"})");
}

}  // namespace
}  // namespace hfshard
