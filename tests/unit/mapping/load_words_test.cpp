#include "mapping/load_words.h"

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mapping/scheme_defaults.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Words = std::vector<std::string>;

// The tiny family with notes, in JSON without the brackets.
MappingTable with_notes(const std::string& notes) {
  return load_table(
      tiny_file(tiny_family_with("\"axes\": ", "\"notes\": [" + notes + "], \"axes\": ")));
}

Words words_of(const MappingTable& table, bool stacked, const Words& names) {
  const Bindings bindings(table, table.example, {}, {});
  return load_words(table.schemes.front(), bindings, stacked, names, {});
}

// Options that a text says to load with: `NAME=VALUE` anywhere but behind `--option`, and the name
// behind "load with".
std::vector<std::pair<std::string, std::string>> named_in(const std::string& text) {
  static const std::regex kOption(R"((--option )?\b([a-z][a-z0-9_]*)=([^\s,;]+))");
  static const std::regex kBare(R"(load with ([a-z]+_[a-z0-9_]+)(?![a-z0-9_=]))");
  std::vector<std::pair<std::string, std::string>> out;
  for (std::sregex_iterator at(text.begin(), text.end(), kOption), end; at != end; ++at) {
    if (!(*at)[1].matched) out.emplace_back((*at)[2], (*at)[3]);
  }
  for (std::sregex_iterator at(text.begin(), text.end(), kBare), end; at != end; ++at)
    out.emplace_back((*at)[1], "");
  return out;
}

TEST(LoadWords, EveryOptionThatANoteNamesIsAmongItsWords) {
  std::size_t seen = 0;
  for (const FamilyFile& file : embedded_families()) {
    const MappingTable table = load_table(file);
    for (const Scheme& scheme : table.schemes) {
      for (const Note& note : scheme.notes) {
        for (const auto& [name, value] : named_in(note.text)) {
          SCOPED_TRACE(table.family + ": " + note.text + ": " + name);
          ++seen;
          const auto found = std::ranges::find(note.load, name, &LoadOption::name);
          ASSERT_NE(found, note.load.end());
          if (!value.empty() && !found->value) {
            EXPECT_EQ(found->text, value);
          }
        }
      }
    }
  }
  EXPECT_GE(seen, 40U);
}

TEST(LoadWords, SayHowLayersLieAndTheFirstName) {
  const MappingTable table = with_notes(R"(["a note", "true"])");
  EXPECT_EQ(words_of(table, true, {}), (Words{"scan_layers=true"}));
  EXPECT_EQ(words_of(table, false, {"one", "two"}), (Words{"scan_layers=false", "model_name=one"}));
}

TEST(LoadWords, HaveWhatTheNotesThatHoldDemand) {
  const MappingTable table = with_notes(
      R"(["b", "true", "plain=[1,2] width={D}"], ["c", "false", "other=1"], ["d", "true", "part={'half'} yes={D>0}"])");
  const Words words = words_of(table, true, {});
  ASSERT_EQ(words.size(), 5U);
  EXPECT_EQ(words[1], "plain=[1,2]");
  EXPECT_TRUE(words[2].starts_with("width="));
  EXPECT_EQ(words[3], "part=half");
  EXPECT_EQ(words[4], "yes=true");
}

TEST(LoadWords, ANoteCountsMoreThanTheLayout) {
  const MappingTable table = with_notes(R"(["b", "true", "scan_layers=false"])");
  EXPECT_EQ(words_of(table, true, {}), (Words{"scan_layers=false"}));
}

TEST(LoadWords, ThatMayDifferFromTheNamedModelSaySo) {
  const MappingTable table = with_notes(R"(["b", "true", "some=1"])");
  EXPECT_EQ(words_of(table, true, {"one"}),
            (Words{"scan_layers=true", "model_name=one", "some=1", "override_model_config=true"}));
}

TEST(LoadWords, AreRefusedWithoutAValue) {
  for (const char* words : {"some", "=1", "a=1  b=2", ""}) {
    const Error error =
        catch_error([&] { with_notes(std::string(R"(["b", "true", ")") + words + "\"]"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << words;
  }
  EXPECT_EQ(catch_error([] { with_notes(R"(["b"])"); }).code(), ErrorCode::bad_input);
}

TEST(LoadWords, OfAnUnknownSchemeAreNone) {
  EXPECT_TRUE(loader_options("hf").path.empty());
  EXPECT_EQ(loader_options("maxtext").path, "load_parameters_path");
}

}  // namespace
}  // namespace hfshard
