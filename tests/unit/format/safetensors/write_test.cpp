// Writes Hugging Face directories: headers, the split into files, and the index.

#include "format/safetensors/write.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/json.h"
#include "format/safetensors/format.h"
#include "format/safetensors/safetensors.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard::format::safetensors {
namespace {

Leaf tensor(const std::string& name, DType dtype, const Shape& shape) {
  Leaf out;
  out.name = name;
  out.dtype = dtype;
  out.shape = shape;
  return out;
}

std::vector<std::uint32_t> in_order(const std::vector<Leaf>& leaves) {
  std::vector<std::uint32_t> out(leaves.size());
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

std::string header_of(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file) {
  std::string out;
  write_header(leaves, in_file, [&](std::span<const std::byte> bytes) { out += as_text(bytes); });
  return out;
}

std::uint64_t bytes_of(const Leaf& leaf) { return packed_bytes(leaf.dtype, leaf.shape.numel()); }

// Source: the bytes of safetensors.numpy.save({"a": ..., "b": ...}, {"format": "pt"}), 0.8.0.
TEST(SafetensorsWriting, AHeaderIsAsTheLibraryWritesIt) {
  const std::vector<Leaf> leaves = {tensor("a", DType::f32, {2, 3}), tensor("b", DType::i8, {})};
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"I8","shape":[],"data_offsets":[24,25]}})";
  const std::uint64_t padded = (json.size() + 7) / 8 * 8;
  const std::string header = header_of(leaves, in_order(leaves));
  EXPECT_EQ(load_le<std::uint64_t>(as_bytes(header).data()), padded);
  EXPECT_EQ(header.substr(8), json + std::string(padded - json.size(), ' '));
}

TEST(SafetensorsWriting, AnyNameIsReadBack) {
  const TempDir dir;
  std::vector<Leaf> leaves = {tensor("\"quoted\" \\ \n", DType::u8, {1}),
                              tensor("caf\xc3\xa9", DType::u8, {2}),
                              tensor(std::string(4096, 'n'), DType::u8, {0})};
  write_text(dir / "x.safetensors", header_of(leaves, in_order(leaves)) + "abc");
  const SafetensorsHeader header = parse_safetensors(dir / "x.safetensors");
  ASSERT_EQ(header.tensors.size(), leaves.size());
  for (const Leaf& leaf : leaves) {
    EXPECT_EQ(std::ranges::count(header.tensors, leaf.name, &TensorInfo::name), 1);
  }
}

TEST(SafetensorsWriting, FilesAreCutBetweenTensors) {
  const std::vector<Leaf> leaves = {tensor("a", DType::f32, {10}), tensor("b", DType::f32, {5}),
                                    tensor("c", DType::f32, {5}),  tensor("d", DType::f32, {40}),
                                    tensor("e", DType::f32, {0}),  tensor("f", DType::f32, {15})};
  const ArrayFiles files = put_in_files(leaves, in_order(leaves), 60);
  EXPECT_EQ(files.order, in_order(leaves));
  EXPECT_EQ(files.first, (std::vector<std::uint32_t>{0, 2, 3, 5, 6}));  // d is larger than a file
  for (std::uint32_t file = 0; file + 1 < files.first.size(); ++file)
    EXPECT_EQ(files.leading_bytes[file], header_of(leaves, files.in_file(file)).size());
  EXPECT_EQ(put_in_files(leaves, in_order(leaves), UINT64_MAX).leading_bytes.size(), 1U);
  EXPECT_EQ(put_in_files(leaves, in_order(leaves), 1).leading_bytes.size(), 5U);
}

TEST(SafetensorsWriting, OrderChangesOnlyWhereATensorWouldBeUnaligned) {
  const std::vector<Leaf> even = {tensor("a", DType::u8, {8}), tensor("b", DType::f64, {1}),
                                  tensor("c", DType::bf16, {3}), tensor("d", DType::bf16, {1})};
  EXPECT_EQ(put_in_files(even, in_order(even), 1000).order, in_order(even));
  const std::vector<Leaf> odd = {tensor("a", DType::u8, {7}),   tensor("b", DType::bf16, {1}),
                                 tensor("c", DType::f64, {1}),  tensor("d", DType::u8, {3}),
                                 tensor("e", DType::bf16, {3}), tensor("f", DType::i64, {0})};
  const ArrayFiles files = put_in_files(odd, in_order(odd), 1000);
  EXPECT_EQ(files.order, (std::vector<std::uint32_t>{2, 5, 1, 4, 0, 3}));
  std::uint64_t at = files.leading_bytes[0];
  for (const std::uint32_t index : files.order) {
    EXPECT_EQ(at % (size_bits(odd[index].dtype) / 8), 0U);
    at += bytes_of(odd[index]);
  }
}

TEST(SafetensorsWriting, WhatItCannotHoldIsRefusedByName) {
  for (const DType dtype : {DType::f4, DType::f6_e2m3, DType::f6_e3m2}) {
    const Error error = catch_error([&] { check_writable(tensor("x", dtype, {8})); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), "x");
  }
  EXPECT_EQ(catch_error([&] { check_writable(tensor("__metadata__", DType::u8, {8})); }).tensor(),
            "__metadata__");
  check_writable(tensor("x", DType::f8_e4m3, {8}));
  // With these names, one header would be too long, but two aren't.
  std::vector<Leaf> leaves;
  for (const char first : {'a', 'b', 'c'})
    leaves.push_back(tensor(first + std::string(400, 'n'), DType::u8, {8}));
  EXPECT_EQ(catch_error([&] { put_in_files(leaves, in_order(leaves), 1000, 1000); }).code(),
            ErrorCode::limit);
  EXPECT_EQ(put_in_files(leaves, in_order(leaves), 16, 1000).leading_bytes.size(), 2U);
  const std::uint64_t longest =
      put_in_files(leaves, in_order(leaves), 1000, 10000).leading_bytes[0] - 8;
  EXPECT_EQ(put_in_files(leaves, in_order(leaves), 1000, longest).leading_bytes.size(), 1U);
  EXPECT_EQ(catch_error([&] { put_in_files(leaves, in_order(leaves), 1000, longest - 1); }).code(),
            ErrorCode::limit);
}

TEST(SafetensorsWriting, NamesSayHowManyFilesThereAre) {
  const FileLayout layout = safetensors_format().layout();
  EXPECT_EQ(layout.data_file(0, 1), "model.safetensors");
  EXPECT_EQ(layout.data_file(0, 2), "model-00001-of-00002.safetensors");
  EXPECT_EQ(layout.data_file(11, 163), "model-00012-of-00163.safetensors");
  EXPECT_EQ(layout.step_directory(3), "");
  for (const std::string name :
       {"model.safetensors", "model.safetensors.index.json", "model-00012-of-00163.safetensors",
        "model-100000-of-100000.safetensors"}) {
    EXPECT_TRUE(is_written_name(name)) << name;
  }
  for (const std::string name :
       {"config.json", "model-1-of-2.safetensors", "my.safetensors",
        "model-00001-of-00002.safetensors.tmp", "model-.safetensors", "consolidated.00.safetensors",
        "model-00001-of-x0002.safetensors"}) {
    EXPECT_FALSE(is_written_name(name)) << name;
  }
}

class Parts final : public Placements {
 public:
  std::string file_path(std::uint32_t file) const override {
    return safetensors_format().layout().data_file(file, 2);
  }
  std::uint32_t file_count() const override { return 2; }
  Place place(std::uint32_t, const Shape&) const override { return {}; }
};

// Source: transformers' save_pretrained, json.dumps(index, indent=2, sort_keys=True) + "\n".
TEST(SafetensorsWriting, TheIndexNamesTheFileOfEveryTensor) {
  const std::vector<Leaf> leaves = {tensor("a", DType::f32, {10}), tensor("b", DType::f32, {0}),
                                    tensor("c\"", DType::i8, {5})};
  const ArrayFiles files = put_in_files(leaves, {2, 0, 1}, 5);
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.files = &files;
  std::string text;
  write_hf_index(tree, Parts(), [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  EXPECT_EQ(text, R"({
  "metadata": {
    "total_size": 45
  },
  "weight_map": {
    "a": "model-00002-of-00002.safetensors",
    "b": "model-00002-of-00002.safetensors",
    "c\"": "model-00001-of-00002.safetensors"
  }
}
)");
}

// A complete manifest names its plan.
TEST(SafetensorsFormat, AFileThatDoesNotExistIsNotRecognized) {
  const TempDir dir;
  EXPECT_FALSE(safetensors_format().recognise(dir / "missing.safetensors").has_value());
  SafetensorsBuilder().tensor("a", DType::u8, {1}).write(dir / "missing.safetensors");
  EXPECT_TRUE(safetensors_format().recognise(dir / "missing.safetensors").has_value());
}

TEST(SafetensorsWriting, ADirectoryIsOfThePlanThatItsManifestNames) {
  const TempDir dir;
  const Leaf leaf = tensor("a", DType::u8, {2});
  const std::uint32_t first = 0;
  write_text(dir / "model.safetensors", header_of({leaf}, std::span(&first, 1)) + "ab");
  const auto plan_id = [&] { return safetensors_format().recognise(dir.path()).value().plan_id; };
  EXPECT_EQ(plan_id(), "");
  const std::string id(64, 'e');
  const std::string rest = "\n\"drops\":[],\n\"transfers\":[]}\n";
  const std::string good = "{\"identity\":{},\"plan_id\":\"" + id + "\"," + rest;
  write_text(dir / kManifestName, good);
  EXPECT_EQ(plan_id(), id);
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_text(dir / kManifestName, good.substr(0, size));
    EXPECT_EQ(plan_id(), "") << size;
  }
  // A long head, as for many files.
  write_text(dir / kManifestName, "{\"identity\":\"" + std::string(300000, 'i') +
                                      "\",\"plan_id\":\"" + id + "\"," + rest);
  EXPECT_EQ(plan_id(), id);
  write_text(dir / kManifestName, "{\"plan_id\":[" + id + "]," + rest);
  EXPECT_EQ(plan_id(), "");
  write_text(dir / kManifestName, "[]\n");
  EXPECT_EQ(plan_id(), "");
}

TEST(SafetensorsWriting, ARefusalSaysWhatToLeaveOutOrToPass) {
  const auto refused = [](const std::string& name, DType dtype) {
    return catch_error([&] { check_writable(tensor(name, dtype, {8})); });
  };
  const Error name = refused("__metadata__", DType::u8);
  EXPECT_EQ(name.sentence(), "safetensors headers use this name");
  EXPECT_EQ(name.hint_text(), "leave the tensor out with --exclude");
  const Error packed = refused("x", DType::f4);
  EXPECT_EQ(packed.sentence(), "hfshard can't write " + std::string(to_string(DType::f4)) +
                                   ": its elements aren't whole bytes");
  EXPECT_EQ(packed.hint_text(), "leave the tensor out with --exclude");
  std::vector<Leaf> leaves;
  for (const char first : {'a', 'b', 'c'})
    leaves.push_back(tensor(first + std::string(1000, 'n'), DType::u8, {8}));
  const Error header = catch_error([&] { put_in_files(leaves, in_order(leaves), 16, 2 * 1024); });
  EXPECT_EQ(header.sentence(),
            "the header of a file with 2 tensors has 2.09 KiB, more than the 2 KiB that readers "
            "accept");
  EXPECT_EQ(header.hint_text(), "pass a smaller --shard-bytes; smaller files have shorter headers");
}

}  // namespace
}  // namespace hfshard::format::safetensors
