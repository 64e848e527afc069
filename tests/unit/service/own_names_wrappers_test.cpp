// Wrappers, prefixes and adapters: the names that stay, the notes, and the refusals.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "service/own_names.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/service/named_checkpoint.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

using Texts = std::vector<std::string>;

std::string config_of(const std::string& family) { return files_of(family).config_text; }

TEST(OwnNames, AWrapperThatCanBeAModuleStaysInAnUnknownModel) {
  const OwnNames own = own_names({"module._orig_mod.x", "module.y"}, "", "", {});
  EXPECT_EQ(own.names, (Texts{"module.x", "module.y"}));
  EXPECT_EQ(own.notes,
            Texts{"hfshard removed the wrapper \"_orig_mod.\" from 1 of 2 tensor names"});
  const OwnNames unknown = own_names({"module.x"}, R"({"model_type": "nobody"})", "", {});
  EXPECT_EQ(unknown.names, Texts{"module.x"});
  EXPECT_EQ(unknown.notes, Texts());
  const OwnNames known = own_names({"module.x"}, config_of("qwen3"), "", {});
  EXPECT_EQ(known.names, Texts{"x"});
  EXPECT_EQ(known.notes, Texts{"hfshard removed the wrapper \"module.\" from every tensor name"});
}

// --include can mean the names without the wrapper.
TEST(OwnNames, OnlyExcludedNamesCanLackAWrapper) {
  const Texts names{"module.x", "module.y", "other.z"};
  const std::string config = config_of("qwen3");
  MappingOptions mapping;
  mapping.exclude = {"other.*"};
  const OwnNames own = own_names(names, config, "place", mapping);
  EXPECT_EQ(own.names, (Texts{"x", "y", "other.z"}));
  EXPECT_EQ(own.notes, Texts{"hfshard removed the wrapper \"module.\" from 2 of 3 tensor names"});
  mapping.exclude.clear();
  mapping.include = {"module.*"};
  const Error error = catch_error([&] { own_names(names, config, "place", mapping); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "\"module.\" begins 2 of the 3 tensor names");
  EXPECT_EQ(error.file(), "place");
  EXPECT_EQ(error.tensor(), "other.z");
  EXPECT_EQ(error.hint_text(), "save the state dict of the unwrapped model");
}

TEST(OwnNames, APrefixIsRemovedFromEveryNameThatIsRead) {
  const Texts names{"s.a", "s.b", "t"};
  MappingOptions mapping;
  mapping.prefix = "s.";
  const Error error = catch_error([&] { own_names(names, "", "place", mapping); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "\"s.\" begins 2 of the 3 tensor names");
  EXPECT_EQ(error.tensor(), "t");
  EXPECT_EQ(error.hint_text(),
            "for this scheme, pass --prefix with the text that all tensor names of the source "
            "begin with");
  const Texts note{"hfshard removed \"s.\" from every tensor name (--prefix)"};
  mapping.include = {"s.*"};
  const OwnNames included = own_names(names, "", "place", mapping);
  EXPECT_EQ(included.names, (Texts{"a", "b", "t"}));
  EXPECT_EQ(included.notes, note);
  mapping.include.clear();
  mapping.exclude = {"t"};
  EXPECT_EQ(own_names(names, "", "place", mapping).names, (Texts{"a", "b", "t"}));
  EXPECT_TRUE(takes_prefix_off(mapping));
  mapping.scheme = "hf";  // writes it
  EXPECT_FALSE(takes_prefix_off(mapping));
  EXPECT_EQ(own_names(names, "", "place", mapping).names, names);
  EXPECT_FALSE(takes_prefix_off({}));
}

TEST(OwnNames, TwoTensorsThatGetOneNameAreRefused) {
  const Error error = catch_error([&] {
    own_names({"c", "x._orig_mod.a", "x.a"}, "", "place", {});
  });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "without their wrappers, two tensors have the name \"x.a\"");
  EXPECT_EQ(error.file(), "place");
  EXPECT_EQ(error.tensor(), "x._orig_mod.a");
  EXPECT_EQ(error.hint_text(), "save the state dict of the unwrapped model");
}

// Returns the names of a model's tensors, changed.
template <typename Change>
Texts changed_names(const Catalog& files, Change&& change) {
  Texts out;
  for (const TensorInfo& info : files.tensors) out.push_back(change(info.name));
  return out;
}

std::string without_model(const std::string& name) {
  return name.starts_with("model.") ? name.substr(6) : name;
}

TEST(OwnNames, NamesOfTheBaseModelGetItsPrefixExceptTheHead) {
  const Catalog files = files_of("qwen3");
  const Texts full = changed_names(files, [](const std::string& name) { return name; });
  Texts base = changed_names(files, without_model);
  const OwnNames own = own_names(base, files.config_text, "", {});
  EXPECT_EQ(own.names, full);
  EXPECT_EQ(own.notes,
            Texts{"the tensors have the base model's names (as AutoModel saves them); hfshard "
                  "read them as \"model.\" and the name"});
  MappingOptions unchanged;
  unchanged.scheme = "hf";
  EXPECT_EQ(own_names(base, files.config_text, "", unchanged).names, base) << "no rules";
  Texts part = base;
  part.pop_back();  // names can be missing
  EXPECT_EQ(own_names(part, files.config_text, "", {}).notes, own.notes);
  Texts more = base;
  more.emplace_back("criterion.weight");
  EXPECT_EQ(own_names(more, files.config_text, "", {}).names, more) << "another model";
  base.back() = "model." + base.back();
  EXPECT_EQ(own_names(base, files.config_text, "", {}).names, base) << "a name has the prefix";
  EXPECT_EQ(own_names(full, files.config_text, "", {}).notes, Texts());
}

TEST(OwnNames, ARepeatedPrefixIsNotedWithItsFirstName) {
  const Catalog files = files_of("qwen3");
  const Texts full = changed_names(files, [](const std::string& name) { return name; });
  const Texts repeated = changed_names(files, [](const std::string& name) {
    return name.starts_with("model.") ? "model." + name : name;
  });
  const OwnNames own = own_names(repeated, files.config_text, "", {});
  EXPECT_EQ(own.names, full);
  const auto first = std::ranges::mismatch(repeated, full).in1;
  EXPECT_EQ(own.notes, Texts{"a prefix is repeated in tensor names such as \"" + *first +
                             "\"; hfshard read it once"});
}

TEST(UnderRulesNames, FilesWithTheirOwnNamesAreNotCopied) {
  const Catalog files = files_of("qwen3");
  EXPECT_FALSE(under_rules_names(files, {}));
  Catalog base = files;
  for (TensorInfo& info : base.tensors) info.name = without_model(info.name);
  std::ranges::sort(base.tensors, {}, &TensorInfo::name);
  MappingOptions asked;
  asked.scheme = "hf";
  asked.exclude = {"*"};  // concerns another question
  const auto found = under_rules_names(base, asked);
  ASSERT_TRUE(found);
  EXPECT_EQ(names_of_arrays(*found), names_of_arrays(files));
}

TEST(ComputedNote, OneArrayIsNotArrays) {
  EXPECT_EQ(computed_note({"a"}),
            "left out: 1 array that the model computes from its config: \"a\"");
  EXPECT_EQ(computed_note({"a", "b"}),
            "left out: 2 arrays that the model computes from its config: \"a\", \"b\"");
}

TEST(RefuseAdapterTensors, OnlyThoseOfAKnownModelThatAreRead) {
  Catalog catalog = catalog_named(
      {"a.lora_A.default.weight", "b.base_layer.weight", "c.weight", "lora_A_of_mine"});
  catalog.files.emplace_back().name = "model.safetensors";
  const std::string config = config_of("qwen3");
  const Error error = catch_error([&] { refuse_adapter_tensors(catalog, config, {}); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "2 of 4 tensors belong to an unmerged adapter");
  EXPECT_EQ(error.file(), "model.safetensors");
  EXPECT_EQ(error.tensor(), "a.lora_A.default.weight");
  EXPECT_EQ(error.hint_text(),
            "merge the adapter first: model.merge_and_unload().save_pretrained(DIR)");
  MappingOptions mapping;
  mapping.exclude = {"a.*"};
  const Error other = catch_error([&] { refuse_adapter_tensors(catalog, config, mapping); });
  EXPECT_EQ(other.sentence(), "1 of 4 tensors belong to an unmerged adapter");
  EXPECT_EQ(other.tensor(), "b.base_layer.weight");
  mapping.exclude = {"a.*", "b.*"};
  EXPECT_NO_THROW(refuse_adapter_tensors(catalog, config, mapping));
  EXPECT_NO_THROW(refuse_adapter_tensors(catalog, "", {}));
  EXPECT_NO_THROW(refuse_adapter_tensors(catalog, R"({"model_type": "nobody"})", {}));
}

TEST(WithNamesIfAny, NamesThatCannotBeUndoneStay) {
  const TempDir dir;
  Catalog catalog = catalog_named({"_orig_mod.x", "y"});
  const auto opened = checkpoint_of(catalog);
  const StorePath place(dir.path());
  EXPECT_EQ(with_names_if_any(opened, place, {}), opened);
  EXPECT_EQ(catch_error([&] { with_own_names(opened, place, {}); }).code(), ErrorCode::bad_input);
  const auto wrapped = checkpoint_of(catalog_named({"_orig_mod.x", "_orig_mod.y"}));
  EXPECT_EQ(names_of_arrays(with_names_if_any(wrapped, place, {})->catalog()), (Texts{"x", "y"}));
  const auto plain = checkpoint_of(catalog_named({"x", "y"}));
  EXPECT_EQ(with_own_names(plain, place, {}), plain);
}

// A copy with the files' names keeps the buffers, as does a model that no family has.
TEST(WithNamesByConfig, ComputedBuffersAreLeftOutByRulesOnly) {
  Catalog files = files_of("qwen3");
  files.tensors.emplace_back().name = "model.embeddings.position_ids";
  std::ranges::sort(files.tensors, {}, &TensorInfo::name);
  const auto opened = checkpoint_of(files);
  const auto by_rules = with_names_by_config(opened, files.config_text, {});
  EXPECT_FALSE(by_rules->catalog().find("model.embeddings.position_ids"));
  EXPECT_EQ(by_rules->catalog().notes, Texts{computed_note({"model.embeddings.position_ids"})});
  MappingOptions copy;
  copy.scheme = "hf";
  EXPECT_EQ(with_names_by_config(opened, files.config_text, copy), opened);
  EXPECT_EQ(with_names_by_config(opened, R"({"model_type": "nobody"})", {}), opened);
  EXPECT_EQ(with_names_by_config(opened, "", {}), opened);
}

TEST(OwnNames, WrappersAroundWrappersAreAllRemoved) {
  const auto note = [](const std::string& wrapper) {
    return "hfshard removed the wrapper \"" + wrapper + "\" from every tensor name";
  };
  const OwnNames own = own_names({"module._orig_mod.module.x", "module._orig_mod.module.y"},
                                 config_of("qwen3"), "", {});
  EXPECT_EQ(own.names, (Texts{"x", "y"}));
  EXPECT_EQ(own.notes, (Texts{note("_orig_mod."), note("module."), note("module.")}));
  const OwnNames deep = own_names(
      {"a._fsdp_wrapped_module._checkpoint_wrapped_module.x", "b._orig_module.y"}, "", "", {});
  EXPECT_EQ(deep.names, (Texts{"a.x", "b.y"}));
  EXPECT_EQ(deep.notes.size(), 3U);
}

// A trainer's module has the model as a member. Excluded names can be next to it.
TEST(OwnNames, AModuleAroundAllNamesIsRemovedIfTheFamilyKnowsTheRest) {
  const Catalog files = files_of("qwen3");
  const Texts full = changed_names(files, [](const std::string& name) { return name; });
  Texts inner = changed_names(files, [](const std::string& name) { return "net." + name; });
  EXPECT_EQ(own_names(inner, files.config_text, "", {}).names, full);
  inner.emplace_back("criterion.weight");
  EXPECT_EQ(own_names(inner, files.config_text, "", {}).names, inner) << "not around this name";
  MappingOptions mapping;
  mapping.exclude = {"criterion.*"};
  Texts wanted = full;
  wanted.emplace_back("criterion.weight");
  const OwnNames own = own_names(inner, files.config_text, "", mapping);
  EXPECT_EQ(own.names, wanted);
  EXPECT_EQ(own.notes,
            Texts{"hfshard removed the wrapper \"net.\" from " + std::to_string(full.size()) +
                  " of " + std::to_string(wanted.size()) + " tensor names"});
  Texts unknown = changed_names(files, [](const std::string& name) { return "net.x." + name; });
  EXPECT_EQ(own_names(unknown, files.config_text, "", {}).names, unknown);
}

TEST(OwnNames, TheFirstKeyOfTheModelsOwnNamesStays) {
  const Catalog tied = files_of("qwen3", {{"tie_word_embeddings", Json(true)}});
  const Texts names = changed_names(tied, [](const std::string& name) {
    EXPECT_TRUE(name.starts_with("model.")) << name;
    return name;
  });
  const OwnNames own = own_names(names, tied.config_text, "", {});
  EXPECT_EQ(own.names, names);
  EXPECT_EQ(own.notes, Texts());
}

// The record says which names they are.
TEST(WithOwnNames, FilesOfARecordedDialectKeepTheirNamesUnlessAPrefixIsAskedFor) {
  const TempDir dir;
  write_text(dir / "plain/x", "");
  const auto wrapped = checkpoint_of(catalog_named({"_orig_mod.x"}));
  EXPECT_EQ(names_of_arrays(with_own_names(wrapped, StorePath(dir / "plain"), {})->catalog()),
            Texts{"x"});
  MappingOptions prefix;
  prefix.prefix = "_orig_mod.";
  const auto found = with_own_names(wrapped, StorePath(dir / "plain"), prefix);
  EXPECT_EQ(names_of_arrays(found->catalog()), Texts{"x"});
  EXPECT_EQ(found->catalog().notes,
            Texts{"hfshard removed \"_orig_mod.\" from every tensor name (--prefix)"});
}

}  // namespace
}  // namespace hfshard
