#include "service/tree_names.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "catalog/tree_structure.h"
#include "service/described.h"
#include "service/own_names.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/mapping/tiny_family.h"
#include "unit/service/named_checkpoint.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

TEST(WithConfigBeside, AConfigThatIsNamedIsKept) {
  const TempDir dir;
  write_text(dir / "config.json", R"({"a": 1})");
  const StorePath place(dir.path());
  EXPECT_EQ(with_config_beside(place, {}).config_text, R"({"a": 1})");
  TreeOptions asked;
  asked.config_text = R"({"b": 2})";
  EXPECT_EQ(with_config_beside(place, asked).config_text, R"({"b": 2})");
}

using Names = std::vector<std::string>;

class WithModelNames : public testing::Test {
 protected:
  // Returns the first naming of MaxText, or the last one: the files'.
  static Naming naming_of(bool nnx) {
    const std::vector<Naming> all = namings_of(files().config_text, "config.json", {});
    return nnx ? *std::ranges::find(all, true, &Naming::nnx) : all.back();
  }
  static Catalog files() { return files_of("qwen3"); }
  static TreeOptions asked_as_llama() {
    TreeOptions out;
    out.config_text = dump_json(family_info("llama").example);
    out.config_name = "config.json";
    return out;
  }
  // Returns the names that an earlier release wrote.
  static Naming former_naming(const TreeOptions& options) {
    const std::vector<Naming> all = namings_of(*options.config_text, "config.json", {});
    const auto found =
        std::ranges::find_if(all, [](const Naming& each) { return !each.present.empty(); });
    return found == all.end() ? Naming() : *found;
  }
  static TreeOptions asked() {
    TreeOptions out;
    out.config_text = files().config_text;
    out.config_name = "config.json";
    return out;
  }
  static std::shared_ptr<const Checkpoint> renamed(Catalog tree) {
    return with_model_names(checkpoint_of(std::move(tree)), asked(), {});
  }
};

TEST_F(WithModelNames, ATensorWithAndWithoutItsWrapperIsRefused) {
  std::vector<std::string> names;
  for (const std::string& name : naming_of(false).names) names.push_back("_orig_mod." + name);
  names.emplace_back("model.norm.weight");
  const Error error = catch_error([&] { renamed(catalog_named(names)); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(),
            "\"_orig_mod.model.norm.weight\" and \"model.norm.weight\" are the same tensor of the "
            "model");
  EXPECT_EQ(error.tensor(), "model.norm.weight");
  names.pop_back();
  EXPECT_EQ(names_of_arrays(renamed(catalog_named(names))->catalog()), naming_of(false).names);
}

TEST_F(WithModelNames, ArraysAsideAreInTheirPlaceUnlessItIsTaken) {
  const Naming maxtext = naming_of(true);
  const auto aside = [&](const std::string& name) {
    return std::string(kAside) + name.substr(maxtext.head.size());
  };
  std::vector<std::string> names = maxtext.names;
  ASSERT_TRUE(names[0].starts_with(maxtext.head) && names[1].starts_with(maxtext.head));
  names.push_back(aside(names[0]));
  names.push_back(std::string(kAside) + "other");
  std::ranges::sort(names);
  EXPECT_EQ(names_of_arrays(renamed(catalog_named(names))->catalog()), names);
  std::erase(names, maxtext.names[0]);
  auto tree = renamed(catalog_named(names));
  std::vector<std::string> wanted = maxtext.names;
  wanted.push_back(std::string(kAside) + "other");
  std::ranges::sort(wanted);
  EXPECT_EQ(names_of_arrays(tree->catalog()), wanted);
  EXPECT_EQ(
      tree->catalog().notes,
      std::vector<std::string>{"1 array of the model was found below \"nnx_aux.model\", first \"" +
                               aside(maxtext.names[0]) + "\""});
  std::erase(names, maxtext.names[1]);
  names.push_back(aside(maxtext.names[1]));
  tree = renamed(catalog_named(names));
  EXPECT_EQ(names_of_arrays(tree->catalog()), wanted);
  EXPECT_EQ(tree->catalog().notes,
            std::vector<std::string>{
                "2 arrays of the model were found below \"nnx_aux.model\", first \"" +
                aside(maxtext.names[0]) + "\""});
}

TEST_F(WithModelNames, ArraysThatTheModelComputesAreLeftOut) {
  std::vector<std::string> names = naming_of(false).names;
  const std::string computed = "model.layers.0.self_attn.rotary_emb.inv_freq";
  names.push_back(computed);
  const auto tree = renamed(catalog_named(names));
  EXPECT_EQ(names_of_arrays(tree->catalog()), naming_of(false).names);
  EXPECT_EQ(tree->catalog().notes, std::vector<std::string>{computed_note({computed})});
}

// A family can store what others compute.
TEST_F(WithModelNames, AnArrayThatTheRulesHaveIsKeptWhateverItsName) {
  const std::string family = tiny_family_with("norm.scale", "rope.cache");
  MappingOptions mapping;
  mapping.files = {{"tiny", "tiny.json", family}};
  TreeOptions options;
  options.config_text =
      R"({"model_type": "tiny", "hidden_size": 7, "num_hidden_layers": 3, "num_experts": 4})";
  options.config_name = "config.json";
  Names names = namings_of(*options.config_text, options.config_name, mapping).front().names;
  ASSERT_TRUE(std::ranges::binary_search(names, "params.rope.cache"));
  const auto kept = [&] {
    return names_of_arrays(
        with_model_names(checkpoint_of(catalog_named(names)), options, mapping)->catalog());
  };
  EXPECT_EQ(kept(), names);
  const Names wanted = names;
  names.emplace_back("params.other.rope.cache");
  EXPECT_EQ(kept(), wanted);
}

TEST_F(WithModelNames, StringsNextToTheModelAreNamedAndTheLoadersEmptyNodeIsNot) {
  std::vector<std::string> names;
  for (const std::string& name : naming_of(false).names) names.push_back("state." + name);
  Catalog tree = catalog_named(names);
  auto structure = std::make_shared<TreeStructure>();
  for (const char* name : {"comment", "opt_state"}) {
    TreeEntry& entry = structure->entries.emplace_back();
    entry.kind = TreeEntry::Kind::empty;
    entry.add_key(name, false);
  }
  tree.structure = structure;
  EXPECT_EQ(renamed(std::move(tree))->catalog().notes,
            (std::vector<std::string>{
                "found the model below \"state\"",
                "left out, because hfshard reads only the model's arrays: \"comment\""}));
}

TEST_F(WithModelNames, ArraysNextToTheModelAreCountedAndTheFirstIsNamed) {
  const auto notes_with = [](const Names& others) {
    Names names = others;
    for (const std::string& name : naming_of(false).names) names.push_back("state." + name);
    return renamed(catalog_named(names))->catalog().notes;
  };
  const std::string found = "found the model below \"state\"";
  EXPECT_EQ(notes_with({}), Names{found});
  EXPECT_EQ(notes_with({"ema.b"}),
            Names{found + "; left out: 1 array next to it, first \"ema.b\""});
  EXPECT_EQ(notes_with({"ema.b", "ema.a"}),
            Names{found + "; left out: 2 arrays next to it, first \"ema.a\""});
}

TEST_F(WithModelNames, ArraysOfRandomNumberGeneratorsAreCountedAndTheFirstIsNamed) {
  const auto notes_with = [](const Names& others) {
    Names names = others;
    for (const std::string& name : naming_of(true).names) names.push_back("state." + name);
    const auto tree = renamed(catalog_named(names));
    EXPECT_EQ(names_of_arrays(tree->catalog()), naming_of(true).names);
    return tree->catalog().notes;
  };
  const std::string found = "found the model below \"state\"";
  const std::string read = "hfshard read its names as those of MaxText's pretraining";
  EXPECT_EQ(notes_with({}), (Names{found, read}));
  EXPECT_EQ(notes_with({"state.rngs.count"}),
            (Names{found, read,
                   "left out: 1 array of random number generators, first \"state.rngs.count\""}));
  EXPECT_EQ(notes_with({"state.rngs.count", "state.decoder.dropout_rngs.key"}),
            (Names{found, read,
                   "left out: 2 arrays of random number generators, first "
                   "\"state.decoder.dropout_rngs.key\""}));
}

// A tree of fewer layers was made for fewer layers.
TEST_F(WithModelNames, NamesOfAnEarlierReleaseAreAllThereUnlessAPartIsTaken) {
  const TreeOptions options = asked_as_llama();
  const Naming former = former_naming(options);
  ASSERT_FALSE(former.present.empty());
  std::vector<std::string> names = former.names;
  names.pop_back();
  const auto with = [&](const MappingOptions& mapping) {
    return with_model_names(checkpoint_of(catalog_named(names)), options, mapping)->catalog();
  };
  const Error error = catch_error([&] { with({}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), former.names.back());
  MappingOptions fewer;
  fewer.num_layers = 1;
  EXPECT_EQ(with(fewer).tensors.size(), names.size());
  MappingOptions some;
  some.include = {"*norm*"};
  EXPECT_EQ(with(some).tensors.size(), names.size());
}

TEST_F(WithModelNames, NamesStayWithAPrefixOrWithoutAConfig) {
  std::vector<std::string> names;
  for (const std::string& name : naming_of(false).names) names.push_back("_orig_mod." + name);
  const auto with = [&](const TreeOptions& options, const MappingOptions& mapping) {
    return names_of_arrays(
        with_model_names(checkpoint_of(catalog_named(names)), options, mapping)->catalog());
  };
  EXPECT_EQ(with(asked(), {}), naming_of(false).names);
  MappingOptions prefix;
  prefix.prefix = "_orig_mod.";
  EXPECT_EQ(with(asked(), prefix), names);
  EXPECT_EQ(with({}, {}), names);
}

TEST_F(WithModelNames, ANameOfAnEarlierReleaseThatIsThereTwiceIsRefused) {
  const TreeOptions options = asked_as_llama();
  const Naming former = former_naming(options);
  ASSERT_FALSE(former.present.empty());
  std::vector<std::string> names = former.names;
  names.push_back("_orig_mod." + names.front());
  const Error error =
      catch_error([&] { with_model_names(checkpoint_of(catalog_named(names)), options, {}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), former.present.front());
}

TEST_F(WithModelNames, AnEmptyKeyOfAnotherArrayStays) {
  std::vector<std::string> names;
  for (const std::string& name : naming_of(true).names) names.push_back("state." + name);
  names.emplace_back("state.other..key");
  std::vector<std::string> wanted = naming_of(true).names;
  wanted.emplace_back("other..key");
  std::ranges::sort(wanted);
  EXPECT_EQ(names_of_arrays(renamed(catalog_named(names))->catalog()), wanted);
}

TEST_F(WithModelNames, NamesOfAnUnknownModelStay) {
  TreeOptions unknown;
  unknown.config_text = R"({"model_type": "nobody"})";
  unknown.config_name = "config.json";
  const std::vector<std::string> names{"a.b", "state.model.norm.weight"};
  EXPECT_EQ(names_in_model(catalog_named(names), unknown, {}), names);
  std::vector<std::string> below;
  for (const std::string& name : naming_of(false).names) below.push_back("state." + name);
  EXPECT_EQ(names_in_model(catalog_named(below), asked(), {}), naming_of(false).names);
}

TEST_F(WithModelNames, OnlyATreeThatLacksNamesIsRefused) {
  std::vector<std::string> names = naming_of(true).names;
  EXPECT_NO_THROW(refuse_missing(catalog_named(names), asked(), {}));
  const std::string last = names.back();
  names.pop_back();
  const Error error = catch_error([&] { refuse_missing(catalog_named(names), asked(), {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), last);
}

// The one array with a name of the files can't be the model's.
TEST_F(WithModelNames, AnArrayOfAnotherShapeDoesntMakeATreeOneOfFiles) {
  std::vector<std::string> names = naming_of(true).names;
  const std::string last = names.back();
  names.back() = "model.norm.weight";
  const Error error = catch_error([&] { refuse_missing(catalog_named(names), asked(), {}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.tensor(), last);
}

TEST_F(WithModelNames, AnotherShapeIsToldBeforeMissingNames) {
  std::vector<std::string> names = naming_of(true).names;
  names.pop_back();
  CompiledModel made;
  for (const TensorInfo& info : files().tensors) {
    Leaf& leaf = made.leaves.emplace_back();
    static_cast<Array&>(leaf) = info;
    if (info.name == "model.norm.weight") leaf.shape = {3};
  }
  const auto failure = [&] {
    return catch_error(
        [&] { check_undone(catalog_named(names), made, *asked().config_text, asked(), {}); });
  };
  EXPECT_EQ(failure().code(), ErrorCode::bad_input);
  EXPECT_EQ(failure().tensor(), "model.norm.weight");
}

// Returns the names below other keys.
Names below(const std::string& key, const Names& names) {
  Names out;
  for (const std::string& name : names) out.push_back(key + name);
  return out;
}

TEST_F(WithModelNames, TwoPlacesOfTheModelAreNamedAndAnOptimizersDontCount) {
  const Names model = naming_of(false).names;
  const auto with = [&](const std::string& key, const std::string& other) {
    Names names = below(key, model);
    for (const std::string& name : below(other, model)) names.push_back(name);
    return renamed(catalog_named(names))->catalog();
  };
  const auto failure = [&](const std::string& key, const std::string& other) {
    const Error error = catch_error([&] { with(key, other); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.sentence() + "; " + error.hint_text();
  };
  EXPECT_EQ(failure("a.", "b."),
            "the checkpoint has the model more than once: below \"a\" and below \"b\"; pass --root "
            "a to read that one");
  EXPECT_EQ(failure("_orig_mod.", "x.y."),
            "the checkpoint has the model more than once: at the top and below \"x.y\"; pass "
            "--root x.y to read that one");
  for (const char* optimizer : {"opt_state.mu.", "optimizer.exp_avg.", "train.opt.nu."}) {
    const Catalog found = with("state.", optimizer);
    EXPECT_EQ(names_of_arrays(found), model) << optimizer;
    EXPECT_EQ(found.notes.front(),
              "found the model below \"state\"; left out: " + std::to_string(model.size()) +
                  " arrays next to it, first \"" + optimizer + model.front() + "\"")
        << optimizer;
  }
  EXPECT_TRUE(with("", "ema.").notes.empty()) << "the model's names are there";
}

TEST_F(WithModelNames, APlaceEndsWithAKey) {
  const Names model = naming_of(false).names;
  const auto found = [](const Names& names) { return renamed(catalog_named(names))->catalog(); };
  Names names = below("ema_", model);
  const Names averages = names;
  for (const std::string& name : model) names.push_back("state." + name);
  EXPECT_EQ(names_of_arrays(found(names)), model);
  EXPECT_EQ(found(names).notes.front(),
            "found the model below \"state\"; left out: " + std::to_string(model.size()) +
                " arrays next to it, first \"" + averages.front() + "\"");
  const std::string alone = found(averages).notes.front();
  EXPECT_TRUE(alone.starts_with("found the model below \"ema_model\"")) << alone;
}

TEST_F(WithModelNames, APlaceHasMoreThanHalfOfTheModelsNames) {
  const Names model = naming_of(false).names;
  const auto read = [&](std::size_t count) {
    const Names some(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(count));
    const Catalog found = renamed(catalog_named(below("state.", some)))->catalog();
    return names_of_arrays(found) == some;
  };
  EXPECT_TRUE(read(model.size() / 2 + 1));
  EXPECT_FALSE(read(model.size() / 2));
}

TEST_F(WithModelNames, ArraysOfAnOptimizerHaveTheNamesOfTheirWeights) {
  const Names model = naming_of(false).names;
  Names names = below("a_opt.mu.", model);
  names.emplace_back("z.count");
  Names wanted = model;
  wanted.emplace_back("z.count");
  EXPECT_EQ(names_in_model(catalog_named(names), asked(), {}), wanted);
}

// Such names end like other names of the model: layers have a "norm.weight" too.
TEST_F(WithModelNames, ANameIsKnownByItsLongestEnd) {
  TreeOptions options;
  options.config_text = files_of("qwen3_next").config_text;
  options.config_name = "config.json";
  const std::vector<Naming> all = namings_of(*options.config_text, options.config_name, {});
  const Names files = all.back().names;
  ASSERT_TRUE(std::ranges::binary_search(files, "model.layers.0.linear_attn.norm.weight"));
  EXPECT_EQ(names_in_model(catalog_named(below("a_opt.mu.", files)), options, {}), files);
}

TEST_F(WithModelNames, NumbersInTheListsOfMaxTextArePartOfTheListsNames) {
  const std::vector<Naming> all = namings_of(files().config_text, "config.json", {});
  const auto has_list = [](const std::string& name) {
    return name.find(".layers_0.") != std::string::npos;
  };
  const auto separate = std::ranges::find_if(all, [&](const Naming& naming) {
    return naming.nnx && std::ranges::any_of(naming.names, has_list);
  });
  ASSERT_NE(separate, all.end());
  Names names;
  for (std::string name : separate->names) {
    if (const std::size_t at = name.find(".layers_"); at != std::string::npos) name[at + 7] = '.';
    names.push_back("base." + name.substr(separate->head.size()));
  }
  EXPECT_EQ(names_of_arrays(renamed(catalog_named(names))->catalog()), separate->names);
}

TEST_F(WithModelNames, KeysThatArePutBeforeTheNamesAndWrappersAreNoted) {
  const Naming files = naming_of(false);
  const auto notes_of = [](const Names& names) {
    return renamed(catalog_named(names))->catalog().notes;
  };
  EXPECT_EQ(notes_of(files.names), Names{});
  EXPECT_EQ(notes_of(below("_orig_mod.", files.names)),
            Names{"hfshard removed wrappers from its names"});
  ASSERT_EQ(files.head, "model.");
  Names bare;
  for (const std::string& name : files.names)
    bare.push_back(name.starts_with("model.") ? name.substr(6) : name);
  EXPECT_EQ(notes_of(bare), Names{"hfshard put \"model.\" before its names"});
  EXPECT_EQ(names_of_arrays(renamed(catalog_named(bare))->catalog()), files.names);
  EXPECT_EQ(notes_of(below("state.", bare)),
            (Names{"found the model below \"state\"", "hfshard put \"model.\" before its names"}));
}

TEST_F(WithModelNames, AnEarlierReleasesNamesAreNotedAndAMissingOneIsNamedWithIts) {
  const TreeOptions options = asked_as_llama();
  const Naming former = former_naming(options);
  ASSERT_FALSE(former.present.empty());
  const auto with = [&](const Names& names) {
    Catalog tree = catalog_named(names);
    tree.wording.array = "array";
    tree.wording.arrays = "arrays";
    return with_model_names(checkpoint_of(std::move(tree)), options, {})->catalog();
  };
  Names present = former.present;
  std::ranges::sort(present);
  const Catalog found = with(below("state.", former.names));
  EXPECT_EQ(names_of_arrays(found), present);
  EXPECT_EQ(found.notes, (Names{"found the model below \"state\"",
                                "hfshard read its names as " + former.about}));
  Names names = former.names;
  names.pop_back();
  const Error one = catch_error([&] { with(names); });
  EXPECT_EQ(one.sentence(), "the checkpoint lacks one array of the model");
  EXPECT_EQ(one.hint_text(), "its names are " + former.about + ", and the model of --config has " +
                                 std::to_string(former.names.size()) +
                                 ": pass the config of this model, or save the whole model");
  std::erase_if(names, [](const std::string& name) { return name.starts_with("layers.1."); });
  const Error layer = catch_error([&] { with(names); });
  EXPECT_EQ(layer.tensor().substr(0, 9), "layers.1.");
  EXPECT_NE(layer.hint_text().find("the checkpoint has nothing of layer 1"), std::string::npos)
      << layer.hint_text();
}

// Flax writes modules in lists with numbers, and variables with `value`.
TEST_F(WithModelNames, FormsOfMaxTextsNamesAreRead) {
  const Naming maxtext = naming_of(true);
  const auto read = [&](const std::string& end, const std::string& from, const std::string& to) {
    Names names;
    for (std::string name : maxtext.names) {
      name = "base." + name.substr(maxtext.head.size());
      if (const std::size_t at = name.find(from); at != std::string::npos)
        name.replace(at, from.size(), to);
      names.push_back(name + end);
    }
    return names_of_arrays(renamed(catalog_named(names))->catalog());
  };
  EXPECT_EQ(read("", "", ""), maxtext.names);
  EXPECT_EQ(read(".value", "", ""), maxtext.names);
  EXPECT_NE(read(".values", "", ""), maxtext.names);
}

TEST_F(WithModelNames, ObjectsNextToTheModelAreNamedAndItsOwnAreNot) {
  Catalog tree = catalog_named(below("state.", naming_of(false).names));
  for (const char* name : {"epoch", "state.version"}) tree.objects.emplace_back().name = name;
  EXPECT_EQ(renamed(std::move(tree))->catalog().notes,
            (Names{"found the model below \"state\"",
                   "left out, because hfshard reads only the model's arrays: \"epoch\""}));
}

TEST_F(WithModelNames, MoreNamesOfFilesThanOfOthersMakeATreeOneOfFiles) {
  const Names files = naming_of(false).names;
  const Names maxtext = naming_of(true).names;
  const auto are = [&](std::size_t of_files, std::size_t of_maxtext, const TreeOptions& options) {
    Names names(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(of_files));
    names.insert(names.end(), maxtext.begin(),
                 maxtext.begin() + static_cast<std::ptrdiff_t>(of_maxtext));
    return has_names_of_files(catalog_named(names), options, {});
  };
  EXPECT_TRUE(are(2, 1, asked()));
  EXPECT_FALSE(are(1, 1, asked()));
  EXPECT_FALSE(are(1, 2, asked()));
  TreeOptions unknown;
  unknown.config_text = R"({"model_type": "nobody"})";
  unknown.config_name = "config.json";
  EXPECT_TRUE(are(1, 0, unknown));
  EXPECT_FALSE(are(0, maxtext.size(), unknown));
}

TEST(WordsForPlace, ThePlaceIsAKeyOrTheTop) {
  EXPECT_EQ(words_for_place(""), "at the top");
  EXPECT_EQ(words_for_place("a.b."), "below \"a.b\"");
}

}  // namespace
}  // namespace hfshard
