#include "tool/fields.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(Fields, HumanCountHasThreeDigitsUpToEachBorder) {
  EXPECT_EQ(human_count(999999), "999999");
  EXPECT_EQ(human_count(1000000), "1 M");
  EXPECT_EQ(human_count(99600000), "99.6 M");
  EXPECT_EQ(human_count(999400000), "999 M");
  EXPECT_EQ(human_count(999500000), "1 B");
  EXPECT_EQ(human_count(999400000000), "999 B");
  EXPECT_EQ(human_count(999500000000), "1 T");
  EXPECT_EQ(human_count(1000000000000000), "1000 T");
}

TEST(Fields, LeavesThatOrbaxRefusesAreAWarning) {
  LoadReport load;
  load.mesh = "fsdp=2";
  load.hosts = {{100, 300, 4}, {200, 200, 7}};
  load.needed_bytes = 300;
  load.read_bytes = 600;
  const std::vector<Field> fine = load_fields(load);
  ASSERT_EQ(fine.size(), 1U);
  EXPECT_EQ(fine[0].label, "load");
  EXPECT_EQ(fine[0].text,
            "on fsdp=2: each of 2 hosts needs up to 200 B and reads up to 300 B in 7 requests "
            "(2.00x)");
  load.refused = {"first", "second"};
  load.largest_request_bytes = 2048;
  const std::vector<Field> refused = load_fields(load);
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_EQ(refused[1].label, "warning");
  EXPECT_EQ(refused[1].text,
            "Orbax's byte limiter refuses 2 leaves there, first first: requests take up to 2 KiB; "
            "pass this mesh to --mesh, or raise restore_concurrent_gb above it");
}

TEST(Fields, ALongTextGoesOnBelowItself) {
  const Field field{"label", "one two three"};
  EXPECT_EQ(field_lines(field, 17),
            (std::vector<std::string>{"label     one two", "          three"}));
  EXPECT_EQ(field_lines(field, 23), std::vector<std::string>{"label     one two three"});
  EXPECT_EQ(field_lines(field, 5),
            (std::vector<std::string>{"label     one", "          two", "          three"}));
}

TEST(Fields, ARangeIsAddedIfItIsKnown) {
  Json out = Json::Object{};
  add_range(std::nullopt, out);
  EXPECT_EQ(dump_json(out), "{}");
  add_range(ByteRange{3, 7}, out);
  EXPECT_EQ(dump_json(out), R"({"begin_bytes":3,"end_bytes":7})");
}

TEST(Fields, AMeshWithoutAxesIsOneDevice) {
  LoadReport load;
  load.hosts = {{100, 100, 1}};
  load.needed_bytes = 0;
  load.read_bytes = 0;
  EXPECT_EQ(load_fields(load).at(0).text,
            "on one device: 1 host needs 100 B and reads 100 B in 1 request (0.00x)");
}

}  // namespace
}  // namespace hfshard
