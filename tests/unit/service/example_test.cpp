#include "service/example.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/floats.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/local/source.h"
#include "format/formats.h"
#include "plan/compile/compile_model.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/mapping/families.h"

namespace hfshard {
namespace {

ExampleOptions options_for(const std::string& out) {
  ExampleOptions options;
  options.family = "qwen3";
  options.out = out;
  return options;
}

ExampleOptions with_vocab(const std::string& out, std::uint64_t rows) {
  ExampleOptions options = options_for(out);
  Json config = family_info("qwen3").example;
  config["vocab_size"] = rows;
  options.config_text = dump_json(config);
  return options;
}

ExampleResult write(const ExampleOptions& options) {
  Reporter quiet;
  return write_example(options, quiet);
}

TEST(Example, IsACheckpointThatOpens) {
  const TempDir dir;
  const ExampleResult result = write(options_for(dir / "out"));
  const Catalog catalog = open_catalog(dir / "out");
  EXPECT_EQ(catalog.tensors.size(), result.tensors);
  EXPECT_EQ(result.files, 1U);
  EXPECT_EQ(result.file_bytes, catalog.files[0].size_bytes);
  EXPECT_EQ(catalog.side_files.size(), 3U);  // config, generation config, tokenizer config
  for (const TensorInfo& tensor : catalog.tensors) EXPECT_EQ(tensor.dtype, DType::bf16);
}

TEST(Example, HeaderIsPaddedToEightBytesAndNamesTheFormat) {
  const TempDir dir;
  write(options_for(dir / "out"));
  const std::string file = read_text(dir / "out/model.safetensors");
  const auto length = load_le<std::uint64_t>(as_bytes(file).data());
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(file.substr(8, 32), R"({"__metadata__":{"format":"pt"},)");
}

TEST(Example, TensorsLieInNaturalOrder) {
  EXPECT_TRUE(natural_less("model.layers.2.a", "model.layers.10.a"));
  EXPECT_FALSE(natural_less("model.layers.10.a", "model.layers.2.a"));
  EXPECT_TRUE(natural_less("model.layers.2.a", "model.layers.2.b"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_FALSE(natural_less("a", "a"));
  EXPECT_TRUE(natural_less("a01", "a1"));
  EXPECT_FALSE(natural_less("a1", "a01"));
  EXPECT_TRUE(natural_less("a09", "a10"));
  EXPECT_TRUE(natural_less("a1.b", "a01.c"));
  const TempDir dir;
  write(options_for(dir / "out"));
  const Catalog catalog = open_catalog(dir / "out");
  std::vector<TensorInfo> order = catalog.tensors;
  std::ranges::sort(order, {}, &TensorInfo::begin_bytes);
  EXPECT_TRUE(std::ranges::is_sorted(order, natural_less, &TensorInfo::name));
}

TEST(Example, ShardsHoldWholeTensorsAndAnIndex) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "out");
  options.shard_bytes = 5000;
  const ExampleResult result = write(options);
  ASSERT_GT(result.files, 2U);
  const Catalog catalog = open_catalog(dir / "out");
  EXPECT_EQ(catalog.files.size(), result.files);
  EXPECT_EQ(catalog.files[0].name,
            "model-00001-of-0000" + std::to_string(result.files) + ".safetensors");
  const Json index = parse_json(read_text(dir / "out/model.safetensors.index.json"), "index");
  EXPECT_EQ(index.at("metadata").at("total_size").as_uint(), result.data_bytes);
  const Json& map = index.at("weight_map");
  EXPECT_EQ(map.as_object().size(), result.tensors);
  for (const TensorInfo& tensor : catalog.tensors)
    EXPECT_EQ(map.at(tensor.name).as_string(), catalog.files[tensor.file].name) << tensor.name;
}

TEST(Example, AFileHoldsTensorsUpToTheShardSize) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "one");
  const ExampleResult one = write(options);
  options.shard_bytes = one.data_bytes;
  options.out = dir / "exact";
  EXPECT_EQ(write(options).files, 1U);
  EXPECT_FALSE(exists(dir / "exact/model.safetensors.index.json"));
  --options.shard_bytes;
  options.out = dir / "less";
  const ExampleResult less = write(options);
  EXPECT_EQ(less.files, 2U);
  EXPECT_EQ(less.data_bytes, one.data_bytes);
  std::uint64_t file_bytes = 0;
  for (const CatalogFile& file : open_catalog(dir / "less").files) file_bytes += file.size_bytes;
  EXPECT_EQ(less.file_bytes, file_bytes);
}

TEST(Example, FilesNextToTheTensorsAreThoseOfTheFamilysExample) {
  const TempDir dir;
  write(options_for(dir / "out"));
  EXPECT_EQ(read_text(dir / "out/config.json"), dump_json_pretty(family_info("qwen3").example));
  EXPECT_EQ(parse_json(read_text(dir / "out/tokenizer_config.json"), "").at("model_max_length"),
            Json(4096));
  EXPECT_EQ(parse_json(read_text(dir / "out/generation_config.json"), "").at("do_sample"),
            Json(false));
}

TEST(Example, ATensorBeyondTheShardSizeHasAFileOfItsOwn) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "out");
  options.shard_bytes = 1;
  const ExampleResult result = write(options);
  EXPECT_EQ(result.files, result.tensors);
}

TEST(Example, SeedAndNameDecideTheBytes) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "a");
  write(options);
  options.out = dir / "b";
  options.shard_bytes = 5000;
  write(options);
  options.out = dir / "c";
  options.seed = 1;
  write(options);
  const auto bytes_of = [](const std::string& where, const std::string& name) {
    const Catalog catalog = open_catalog(where);
    const TensorInfo& tensor = catalog.tensors[*catalog.find(name)];
    std::string out(tensor.size_bytes, '\0');
    const FileSource source(catalog.files[tensor.file].path.name());
    source.read_at(tensor.begin_bytes, std::as_writable_bytes(std::span(out)));
    return out;
  };
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  EXPECT_EQ(bytes_of(dir / "a", name), bytes_of(dir / "b", name));
  EXPECT_NE(bytes_of(dir / "a", name), bytes_of(dir / "c", name));
  EXPECT_NE(bytes_of(dir / "a", name), bytes_of(dir / "a", "model.layers.2.mlp.up_proj.weight"));
}

// The writer's buffer is smaller than these tensors.
TEST(Example, NoPartOfALargeTensorRepeats) {
  const TempDir dir;
  write(with_vocab(dir / "out", std::uint64_t{1} << 17));
  const Catalog catalog = open_catalog(dir / "out");
  const TensorInfo& tensor = catalog.tensors[*catalog.find("model.embed_tokens.weight")];
  ASSERT_GT(tensor.size_bytes, std::uint64_t{4} << 20);
  const std::string file = read_text(catalog.files[tensor.file].path.name());
  const std::string start = file.substr(tensor.begin_bytes, 64);
  EXPECT_EQ(file.find(start, tensor.begin_bytes + 1), std::string::npos);
}

TEST(Example, SparseHasFullSizeAndNoData) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "full");
  const ExampleResult full = write(options);
  options.out = dir / "sparse";
  options.sparse = true;
  const ExampleResult sparse = write(options);
  EXPECT_EQ(full.file_bytes, sparse.file_bytes);
  const Catalog catalog = open_catalog(dir / "sparse");
  const std::string file = read_text(catalog.files[0].path.name());
  EXPECT_EQ(file.find_first_not_of('\0', file.size() - full.data_bytes), std::string::npos);
}

TEST(Example, TheGivenConfigIsCopiedVerbatim) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "out");
  Json config = family_info("qwen3").example;
  config["num_hidden_layers"] = 5;
  options.config_text = "\n  " + dump_json(config) + "  \n";
  write(options);
  EXPECT_EQ(read_text(dir / "out/config.json"), options.config_text);
  EXPECT_TRUE(open_catalog(dir / "out").find("model.layers.4.mlp.up_proj.weight").has_value());
}

TEST(Example, AConfigOfAnotherFamilyIsRefused) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "out");
  options.config_text = dump_json(family_info("llama").example);
  EXPECT_EQ(catch_error([&] { write(options); }).code(), ErrorCode::bad_input);
  options.config_text = R"({"model_type": "nobody"})";
  EXPECT_EQ(catch_error([&] { write(options); }).code(), ErrorCode::bad_input);
  EXPECT_FALSE(exists(dir / "out"));
}

TEST(Example, AnUnknownFamilyIsNotFoundWithNearNames) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "out");
  options.family = "qwem3";
  const Error error = catch_error([&] { write(options); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_NE(error.hint_text().find("qwen3"), std::string::npos);
}

MappingFile own_file(const std::string& family, bool asked) {
  return {family, family + ".json", std::string(family_by_name(family).text), asked, {}};
}

TEST(ChosenFamily, AMappingFileThatTheUserNamesChoosesItOrAgrees) {
  FamilyChoice choice;
  choice.own = {own_file("llama", true), own_file("qwen3", false)};
  EXPECT_EQ(chosen_family(choice).name, "llama");
  choice.family = "qwen3";
  EXPECT_EQ(chosen_family(choice).name, "qwen3");
  choice.own.pop_back();
  const Error other = catch_error([&] { chosen_family(choice); });
  EXPECT_EQ(other.code(), ErrorCode::usage);
  EXPECT_EQ(other.sentence(), "\"llama.json\" belongs to family \"llama\", not to \"qwen3\"");
  EXPECT_EQ(other.hint_text(), "leave out FAMILY or --mapping");
  choice.own[0].asked = false;
  EXPECT_EQ(chosen_family(choice).name, "qwen3");
  choice.family = "";
  EXPECT_EQ(catch_error([&] { chosen_family(choice); }).code(), ErrorCode::usage);
  choice.own = {own_file("llama", true), own_file("qwen3", true)};
  EXPECT_EQ(catch_error([&] { chosen_family(choice); }).sentence(),
            "pass a FAMILY, or one --mapping FILE");
}

TEST(ExampleConfig, AConfigOfAnotherFamilyIsRefusedWithAHint) {
  const FamilyFile family = family_by_name("qwen3");
  const auto refusal = [&](const Json& config) {
    const Error error =
        catch_error([&] { example_config(family, dump_json(config), "mine.json", {}); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.file(), "mine.json");
    return error.sentence() + "; " + error.hint_text();
  };
  EXPECT_EQ(refusal(family_info("llama").example),
            "the config belongs to family \"llama\", not to \"qwen3\"; pass llama as FAMILY");
  EXPECT_EQ(refusal(parse_json(R"({"model_type": "nobody"})", "")),
            "the config's model_type doesn't belong to family \"qwen3\"; set model_type to one of "
            "qwen3");
}

TEST(Example, ANonEmptyOutIsAConflictAndAnEmptyOneIsNot) {
  const TempDir dir;
  write_text(dir / "full/x", "x");
  const Error full = catch_error([&] { write(options_for(dir / "full")); });
  EXPECT_EQ(full.code(), ErrorCode::conflict);
  EXPECT_EQ(full.sentence(), "the directory for the example isn't empty");
  EXPECT_EQ(full.file(), dir / "full");
  EXPECT_EQ(full.hint_text(), "remove it, or pass another directory");
  EXPECT_EQ(catch_error([&] { write(options_for(dir / "full/x")); }).code(), ErrorCode::conflict);
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  EXPECT_EQ(catch_error([&] { write(options_for(dir / "dangling")); }).sentence(),
            "a file with this name exists");
  make_directories(dir / "empty");
  EXPECT_GT(write(options_for(dir / "empty")).tensors, 0U);
}

TEST(Example, WhatDoesNotFitOnTheDiskIsRefusedBeforeAnythingIsWritten) {
  const TempDir dir;
  const ExampleOptions options = with_vocab(dir / "out", std::uint64_t{1} << 50);
  const Error error = catch_error([&] { write(options); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_TRUE(error.sentence().starts_with("the example needs 104 PiB (117")) << error.sentence();
  EXPECT_NE(error.sentence().find(" bytes), and the disk has "), std::string::npos);
  EXPECT_EQ(error.file(), dir / "out");
  EXPECT_FALSE(exists(dir / "out"));
}

// Keeps the progress. Can stop when the writing starts.
class ExampleProgress final : public Reporter {
 public:
  void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) override {
    total = total_bytes;
    done = already_done_bytes;
    if (stops) throw Error(ErrorCode::cancelled, "stopped");
  }
  void advanced(std::uint64_t bytes) override { done += bytes; }
  bool stops = false;
  std::uint64_t total = 0;
  std::uint64_t done = 0;
};

// Its files take no space. The reporter stops it before it writes them.
TEST(Example, ASparseExampleNeedsNoFreeDisk) {
  const TempDir dir;
  ExampleOptions options = with_vocab(dir / "out", std::uint64_t{1} << 50);
  EXPECT_EQ(catch_error([&] { write(options); }).hint_text(),
            "pass --sparse to write files of full size that take no disk space");
  options.sparse = true;
  ExampleProgress progress;
  progress.stops = true;
  const Error error = catch_error([&] { write_example(options, progress); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled) << error.format();
  EXPECT_GT(progress.total, std::uint64_t{1} << 54);
}

TEST(Example, ProgressCountsTheBytesOfTheTensors) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "full");
  options.shard_bytes = 5000;
  for (const bool sparse : {false, true}) {
    options.sparse = sparse;
    options.out = dir / (sparse ? "sparse" : "full");
    ExampleProgress progress;
    const ExampleResult result = write_example(options, progress);
    EXPECT_GT(result.data_bytes, 0U);
    EXPECT_EQ(progress.total, result.data_bytes);
    EXPECT_EQ(progress.done, result.data_bytes);
  }
}

float value_at(DType dtype, const std::vector<std::byte>& bytes, std::size_t index) {
  if (dtype == DType::f32) return load_le<float>(&bytes[index * 4]);
  const auto bits = load_le<std::uint16_t>(&bytes[index * 2]);
  return dtype == DType::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

TEST(FillRandom, ValuesAreFiniteSignedAndOfModerateSize) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    std::vector<std::byte> bytes(std::size_t{1} << 16);
    fill_random(7, 0, dtype, bytes);
    const std::size_t count = bytes.size() * 8 / size_bits(dtype);
    std::size_t negative = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const float value = value_at(dtype, bytes, i);
      ASSERT_GE(std::abs(value), 1.0F / 256);
      ASSERT_LT(std::abs(value), 1.0F);
      negative += value < 0 ? 1 : 0;
    }
    EXPECT_GT(negative, count * 2 / 5);
    EXPECT_LT(negative, count * 3 / 5);
  }
}

TEST(FillRandom, PiecesAndOddTailsAgreeWithTheWhole) {
  std::vector<std::byte> whole(64);
  fill_random(3, 0, DType::bf16, whole);
  std::vector<std::byte> piece(22);
  fill_random(3, 2, DType::bf16, piece);
  EXPECT_TRUE(std::ranges::equal(piece, std::span(whole).subspan(16, 22)));
}

TEST(ExampleCatalog, HasTheTensorsOfTheWrittenCheckpoint) {
  const TempDir dir;
  write(options_for(dir / "out"));
  const Catalog written = open_catalog(dir / "out");
  const Catalog made =
      example_catalog(family_by_name("qwen3"), family_info("qwen3").example, DType::bf16);
  EXPECT_EQ(made.location, "the example of family qwen3");
  EXPECT_EQ(parse_json(made.config_text, ""), family_info("qwen3").example);
  ASSERT_EQ(made.tensors.size(), written.tensors.size());
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    EXPECT_EQ(made.tensors[i].name, written.tensors[i].name);
    EXPECT_EQ(made.tensors[i].shape, written.tensors[i].shape);
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // first byte and end
  for (const TensorInfo& tensor : made.tensors)
    places.emplace_back(tensor.begin_bytes, tensor.begin_bytes + tensor.size_bytes);
  std::ranges::sort(places);
  EXPECT_EQ(places.front().first, 0U);
  for (std::size_t i = 1; i < places.size(); ++i) EXPECT_EQ(places[i].first, places[i - 1].second);
  EXPECT_EQ(places.back().second, made.files[0].size_bytes);
}

// MaxText has no stack for them. transformers treats a number beyond the layers as all.
TEST(ExampleCatalog, LayersThatAreAllDenseHaveSeparateFormsOnly) {
  const FamilyFile family = family_by_name("deepseek");
  Json config = family_info("deepseek").example;
  std::vector<Catalog> made;
  for (const std::uint64_t dense : {5U, 7U}) {
    config["first_k_dense_replace"] = dense;
    made.push_back(example_catalog(family, config, DType::bf16));
    EXPECT_TRUE(made.back().find("model.layers.4.mlp.gate_proj.weight"));
    EXPECT_FALSE(made.back().find("model.layers.4.mlp.gate.weight"));
    MappingOptions options;
    options.stacked = false;
    const std::string words = join(compile_model(made.back(), options).load_words, " ");
    EXPECT_EQ(words.find("first_num_dense_layers=7"), std::string::npos) << words;
    options.stacked = true;
    const Error error = catch_error([&] { compile_model(made.back(), options); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_EQ(error.hint_text(), "--layers separate");
  }
  EXPECT_EQ(made[0].tensors.size(), made[1].tensors.size());
}

TEST(Example, OtherDtypesAndNoFamilyAreRefused) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "out");
  options.dtype = DType::f64;
  const Error dtype = catch_error([&] { write(options); });
  EXPECT_EQ(dtype.code(), ErrorCode::usage);
  EXPECT_EQ(dtype.sentence(), "pass --dtype bf16, f16 or f32, not f64");
  options.dtype = DType::f32;
  options.family = "";
  const Error family = catch_error([&] { write(options); });
  EXPECT_EQ(family.code(), ErrorCode::usage);
  EXPECT_EQ(family.sentence(), "pass a FAMILY, or one --mapping FILE");
  EXPECT_FALSE(exists(dir / "out"));
}

TEST(FillRandom, CodesAreSmallAndScalesAreNearOne) {
  const auto filled = [](DType dtype, bool scale) {
    std::vector<std::byte> out(4096);
    fill_random(7, 0, dtype, out, scale);
    return out;
  };
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    for (const std::byte code : filled(dtype, false))
      ASSERT_EQ(std::to_integer<unsigned>(code) & 0x40U, 0U) << to_string(dtype);
  }
  for (const std::byte scale : filled(DType::f8_e4m3, true))
    ASSERT_EQ(std::to_integer<unsigned>(scale) & 0x40U, 0U) << "a scale that has a mantissa";
  for (const DType dtype : {DType::u8, DType::f4}) {
    const std::vector<std::byte> codes = filled(dtype, false);
    for (unsigned code = 0; code < 256; ++code)
      EXPECT_GT(std::ranges::count(codes, std::byte(code)), 0) << to_string(dtype) << code;
  }
  const std::vector<std::byte> indices = filled(DType::i64, false);
  for (std::size_t i = 0; i < indices.size(); i += 8)
    ASSERT_LE(load_le<std::uint64_t>(&indices[i]), 3U) << "an index that every model's tables have";
  for (const DType dtype : {DType::u8, DType::f8_e8m0}) {
    for (const std::byte scale : filled(dtype, true)) {
      ASSERT_GE(std::to_integer<unsigned>(scale), 125U) << to_string(dtype);
      ASSERT_LE(std::to_integer<unsigned>(scale), 128U) << to_string(dtype);
    }
  }
}

TEST(Example, SizesThatNoNumberHoldsAreRefused) {
  const TempDir dir;
  ExampleOptions options = options_for(dir / "out");
  options.sparse = true;
  Json config = family_info("qwen3").example;
  const std::uint64_t width = config.at("hidden_size").as_uint();
  config["num_hidden_layers"] = 5;
  config["intermediate_size"] = (std::uint64_t{1} << 60) / width - 1;  // almost 2^61 bytes
  options.config_text = dump_json(config);
  for (const std::uint64_t shard_bytes : {options.shard_bytes, ~std::uint64_t{0}}) {
    options.shard_bytes = shard_bytes;
    const Error error = catch_error([&] { write(options); });
    EXPECT_EQ(error.code(), ErrorCode::limit);
    EXPECT_EQ(error.sentence(), "the example has more than 2^64 bytes");
    EXPECT_FALSE(exists(dir / "out"));
  }
}

}  // namespace
}  // namespace hfshard
