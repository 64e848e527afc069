// Compares grids of real model sizes (tests/oracle/trees) with a list from code that only knew
// divisors. A rule for the sizes that it cut badly must not change the others.

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "bytes/local/files.h"
#include "format/null/null.h"
#include "plan/plan.h"
#include "support/test_data.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

const std::string kList = test_data("oracle/grids.txt");
const std::string kTrees = test_data("oracle/trees");
constexpr const char* kMeshes[] = {"fsdp=16",         "fsdp=8,tensor=2", "fsdp=4,tensor=4",
                                   "fsdp=64",         "tensor=8",        "fsdp=2,tensor=16",
                                   "fsdp=8,expert=8", "fsdp=32,tensor=4"};
constexpr std::uint64_t kChunkBytes[] = {std::uint64_t{64} << 20, std::uint64_t{2} << 20,
                                         std::uint64_t{64} << 10};

FakeCatalog catalog_of(const Json& model) {
  FakeCatalog out;
  const Json& config = model.at("config");
  out.config_text = dump_json(config);
  for (const ExpectedTensor& tensor :
       expected_tensors(family_by_name(model.at("family").as_string()), config)) {
    TensorInfo info;
    info.name = tensor.name;
    info.shape = tensor.shape;
    info.dtype = DType::bf16;
    info.size_bytes = packed_bytes(info.dtype, info.shape.numel());
    out.tensors.push_back(info);
  }
  std::ranges::sort(out.tensors, {}, &TensorInfo::name);
  return out;
}

// Returns a shape in the form of the list's digests.
std::string hashed(const Shape& shape) {
  if (shape.rank() == 0) return "scalar";
  return fmt::format("{}", fmt::join(shape.begin(), shape.end(), " x "));
}

std::string text_of(const Plan& plan) {
  std::string out;
  for (std::size_t i = 0; i < plan.model().leaves.size(); ++i) {
    const Grid& grid = plan.grids()[i];
    out += fmt::format("{} {} / {} / {}\n", plan.model().leaves[i].name, hashed(grid.shard),
                       hashed(grid.chunk), hashed(grid.inner));
  }
  return out;
}

// Returns one line for a layout on a mesh: the number of chunks, and a hash of all grids.
std::string line_of(const Catalog& catalog, const CompiledModel& model, const PlanOptions& options,
                    const std::string& what) {
  const Format& target = format::null::null_format();
  const auto form = [&](const Leaf& leaf, const Grid& grid) {
    return target.form(leaf, grid, options.encoding);
  };
  try {
    const Plan plan = build_plan(make_model(catalog, model), options, form, {}, {});
    return fmt::format("{} {} {}\n", what, plan.totals().chunks,
                       sha256_hex(text_of(plan)).substr(0, 16));
  } catch (const Error& error) {  // the mesh doesn't divide, or units exceed the slab
    return fmt::format("{} {}\n", what, to_string(error.code()));
  }
}

std::string lines_of(const std::string& name) {
  const Json model = parse_json(read_file(kTrees + "/" + name), name);
  const FakeCatalog catalog = catalog_of(model);
  std::string out;
  for (const bool stacked : {true, false}) {
    PlanOptions options;
    options.mapping.stacked = stacked;
    options.mapping.options["maxtext"] = "0.2.4";  // the release of the list
    CompiledModel compiled;
    try {
      compiled = compile_model(catalog, options.mapping);
    } catch (const Error& error) {  // the family lacks the layout
      continue;
    }
    for (const std::uint64_t chunk_bytes : kChunkBytes) {
      options.chunk_bytes = chunk_bytes;
      for (const char* mesh : kMeshes) {
        options.meshes = {mesh};
        out += line_of(catalog, compiled, options,
                       fmt::format("{} {} {} {}", name.substr(0, name.size() - 5),
                                   stacked ? "stacked" : "separate", mesh, chunk_bytes));
      }
    }
  }
  return out;
}

// Returns the number of chunks in a line. 0 without a plan.
std::uint64_t chunks_in(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  for (int i = 0; i < 5; ++i) words >> word;
  return words.eof() ? 0 : std::stoull(word);
}

// In the list, `!` marks sizes that were cut badly, or not at all. They must be better now.
TEST(GridList, GridsOfRealModelsAreThoseOfTheDivisorSearch) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a minute of one search for many numbers; Models/Abstract goes the same way";
#endif
  std::string found;
  for (const std::string& name : list_directory(kTrees)) {
    if (name.ends_with(".json") && name != "oddities.json") found += lines_of(name);
  }
  std::istringstream expected_lines(read_file(kList));
  std::istringstream found_lines(found);
  std::string expected;
  std::string line;
  std::size_t lines = 0;
  while (std::getline(found_lines, line)) {
    ASSERT_TRUE(std::getline(expected_lines, expected)) << line;
    ++lines;
    if (!expected.starts_with("!")) {
      EXPECT_EQ(line, expected);
    } else if (chunks_in(expected) == 0) {
      EXPECT_GT(chunks_in(line), 0U) << line;
    } else {
      EXPECT_LT(chunks_in(line), chunks_in(expected)) << line << " was " << expected;
      EXPECT_NE(line, expected.substr(1));
    }
  }
  EXPECT_FALSE(std::getline(expected_lines, expected)) << expected;
  EXPECT_GE(lines, 1000U);
}

}  // namespace
}  // namespace hfshard
