#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// The file still has two bytes for each element.
TEST(ElementPlace, AnElementOfASourceThatIsCastHasItsByteInTheFile) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  Reporter quiet;
  PlanOptions options = small_options();
  options.mapping.dtype = DType::f32;
  hfshard::convert(source, options, to_output(dir / "wide"), quiet);
  const InspectReport seen =
      inspect(source, {false, false, "model.layers.1.mlp.down_proj.weight"}, quiet);
  const StoredArray& array = seen.checkpoint.arrays.at(0);
  const std::uint64_t place = array.begin_bytes + (13 * array.shape[1] + 17) * 2;
  const std::string file = seen.checkpoint.files.at(array.file).name;
  std::string bytes = read_file(join_path(source, file));
  bytes.at(place) = static_cast<char>(bytes.at(place) ^ 1);
  write_text(join_path(source, file), bytes);
  const DiffResult found = diff(dir / "wide", source, {}, to_output(""), quiet);
  ASSERT_EQ(found.differing_elements, 1U);
  const auto item = std::ranges::find(found.tensors, TensorDiff::Kind::values, &TensorDiff::kind);
  ASSERT_NE(item, found.tensors.end());
  EXPECT_EQ(item->values->b.index, (Shape{13, 17}));
  EXPECT_EQ(item->values->b.file, file);
  EXPECT_EQ(item->values->b.byte, place);
}

}  // namespace
}  // namespace hfshard
