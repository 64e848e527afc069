#include "service/own_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "service/complete.h"
#include "service/described.h"
#include "service/recorded.h"
#include "service/renamed.h"
#include "service/ties.h"
#include "service/tree_source.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

// Modules that wrap another one, at any depth. No model has modules with these names. Sources:
// pytorch/pytorch torch/_dynamo/eval_frame.py (OptimizedModule), torch/distributed/fsdp/
// _common_utils.py (FSDP_WRAPPED_MODULE), torch/distributed/algorithms/_checkpoint/
// checkpoint_wrapper.py (_CHECKPOINT_WRAPPED_MODULE); huggingface/transformers issue 29659.
constexpr std::array<std::string_view, 4> kAnywhere = {
    "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_module."};
// Wrappers that appear only before all names. Sources: pytorch/pytorch torch/nn/parallel/
// distributed.py; huggingface/peft src/peft/peft_model.py (base_model), tuners/lora/model.py
// (model).
constexpr std::array<std::string_view, 2> kInFront = {"base_model.model.", "module."};
// Parts of names that a merged model doesn't have. Source: huggingface/peft src/peft/tuners/
// lora/layer.py, src/peft/utils/other.py (ModulesToSaveWrapper).
constexpr std::array<std::string_view, 8> kAdapterParts = {"lora_A",
                                                           "lora_B",
                                                           "lora_embedding_A",
                                                           "lora_embedding_B",
                                                           "lora_magnitude_vector",
                                                           "base_layer",
                                                           "modules_to_save",
                                                           "original_module"};

constexpr const char* kUnwrap = "save the state dict of the unwrapped model";

std::size_t count_before(const Names& names, std::string_view prefix) {
  return static_cast<std::size_t>(std::ranges::count_if(
      names, [&](const std::string& name) { return name.starts_with(prefix); }));
}

// Erases a wrapper at the start of any component. Returns whether the name had one.
bool take_wrapper_off(std::string& name, std::string_view wrapper) {
  bool any = false;
  for (std::size_t at = name.find(wrapper); at != std::string::npos; at = name.find(wrapper, at)) {
    if (at != 0 && name[at - 1] != '.') {
      ++at;
      continue;
    }
    name.erase(at, wrapper.size());
    any = true;
  }
  return any;
}

class Undoing {
 public:
  Undoing(Names names, std::string location, const MappingOptions& mapping)
      : location_(std::move(location)), first_(names), names_(std::move(names)) {
    MappingOptions excluded;
    excluded.exclude = mapping.exclude;
    for (const std::string& name : names_) left_.push_back(left_out(excluded, name).has_value());
  }

  const Names& names() const noexcept { return names_; }
  // Returns the names without those that --exclude leaves out. (--include can mean the new names.)
  Names kept() const {
    Names out;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!left_[i]) out.push_back(names_[i]);
    }
    return out;
  }

  // Removes a prefix from all names but those that --exclude or --include leave out. Throws:
  // bad_input, if another one doesn't begin with it.
  void take_prefix_off(const MappingOptions& mapping) {
    const std::string& prefix = mapping.prefix;
    const auto other = std::ranges::find_if(names_, [&](const std::string& name) {
      return !name.starts_with(prefix) && !left_out(mapping, name);
    });
    if (other != names_.end()) {
      throw partial(prefix, other,
                    "for this scheme, pass --prefix with the text that all tensor names of the "
                    "source begin with");
    }
    for (std::string& name : names_) {
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
    }
    notes_.push_back(
        fmt::format("hfshard removed {} from every tensor name (--prefix)", quote(prefix)));
  }

  // `in_front`: also removes those that can be a module's own name in a model of an unknown family.
  void take_wrappers_off(bool in_front) {
    bool more = true;
    while (more) {
      more = false;
      for (const std::string_view wrapper : kAnywhere) more |= take_anywhere(wrapper);
      for (const std::string_view wrapper : kInFront)
        if (in_front) more |= take_in_front(wrapper);
    }
  }

  void take_outer_off(const std::string& outer) { take_in_front(outer); }

  void put_before(const std::string& prefix, const Names& names) {
    names_ = names;
    notes_.push_back(
        fmt::format("the tensors have the base model's names (as AutoModel saves them); hfshard "
                    "read them as {} and the name",
                    quote(prefix)));
  }

  void take_repeats_off(Names once) {
    const auto differs = std::ranges::mismatch(once, names_).in2;
    notes_.push_back(fmt::format(
        "a prefix is repeated in tensor names such as {}; hfshard read it once", quote(*differs)));
    names_ = std::move(once);
  }

  OwnNames finish() {
    Names sorted = names_;
    std::ranges::sort(sorted);
    const auto twice = std::ranges::adjacent_find(sorted);
    if (twice != sorted.end()) {
      const auto at = std::ranges::find(names_, *twice) - names_.begin();
      throw Error(
          ErrorCode::bad_input,
          fmt::format("without their wrappers, two tensors have the name {}", quote(*twice)))
          .in_file(location_)
          .in_tensor(first_[static_cast<std::size_t>(at)])
          .hint(kUnwrap);
    }
    return {std::move(names_), std::move(notes_)};
  }

 private:
  // `other`: a name that doesn't begin with the prefix.
  Error partial(std::string_view prefix, Names::const_iterator other, const char* hint) const {
    return Error(ErrorCode::bad_input,
                 fmt::format("{} begins {} of the {} tensor names", quote(prefix),
                             count_before(names_, prefix), names_.size()))
        .in_file(location_)
        .in_tensor(first_[static_cast<std::size_t>(other - names_.begin())])
        .hint(hint);
  }

  // Returns the first name that isn't left out and doesn't begin with the text.
  Names::const_iterator without(std::string_view begin) const {
    std::size_t i = 0;
    while (i < names_.size() && (left_[i] || names_[i].starts_with(begin))) ++i;
    return names_.begin() + static_cast<std::ptrdiff_t>(i);
  }

  // Refuses a wrapper that only some names begin with.
  void refuse_partial(std::string_view wrapper) const {
    if (const auto other = without(wrapper); other != names_.end())
      throw partial(wrapper, other, kUnwrap);
  }

  bool take_anywhere(std::string_view wrapper) {
    if (count_before(names_, wrapper) != 0) refuse_partial(wrapper);
    std::size_t count = 0;
    for (std::string& name : names_)
      if (take_wrapper_off(name, wrapper)) ++count;
    if (count == 0) return false;
    note(wrapper, count);
    return true;
  }

  bool take_in_front(std::string_view wrapper) {
    const std::size_t count = count_before(names_, wrapper);
    if (count == 0) return false;
    refuse_partial(wrapper);
    for (std::string& name : names_) {
      if (name.starts_with(wrapper)) name.erase(0, wrapper.size());
    }
    note(wrapper, count);
    return true;
  }

  void note(std::string_view wrapper, std::size_t count) {
    notes_.push_back(
        count == names_.size()
            ? fmt::format("hfshard removed the wrapper {} from every tensor name", quote(wrapper))
            : fmt::format("hfshard removed the wrapper {} from {} of {} tensor names",
                          quote(wrapper), count, names_.size()));
  }

  std::string location_;
  Names first_;  // the stored names
  Names names_;
  std::vector<bool> left_;  // by --exclude
  Names notes_;
};

bool is_of_adapter(std::string_view name) {
  const Names parts = split(name, '.');
  return std::ranges::any_of(parts, [](const std::string& part) {
    return std::ranges::find(kAdapterParts, part) != kAdapterParts.end();
  });
}

// Returns possible first components of the layers' names, according to the rules.
Names base_prefixes(const MappingTable& table, const Json& config) {
  const Bindings::Options none;
  const Bindings bindings(table, config, none, {});
  Names out;
  for (const LayerGroup& group : table.main_scheme().groups) {
    std::string prefix = group.hf.shown(bindings);
    prefix.resize(std::min(prefix.size(), prefix.find('.') + 1));
    const bool plain = prefix.size() > 1 && prefix.find('{') == std::string::npos;
    if (plain && std::ranges::find(out, prefix) == out.end()) out.push_back(std::move(prefix));
  }
  return out;
}

// Checks the names with a family's rules. Returns nothing if the rules don't have the model.
std::optional<NameCheck> checked(const NameList& list, const MappingOptions& mapping) {
  for (const bool stacked : {true, false}) {
    MappingOptions options = mapping;
    options.stacked = stacked;
    try {
      return check_names(list, options);
    } catch (const Error& error) {  // compiling reports why
      if (error.code() == ErrorCode::internal) throw;
    }
  }
  return std::nullopt;
}

// Returns whether the family's rules take every name. Names can be missing. A glob that drops most
// names, such as "vision_model.*", doesn't prove anything.
bool are_known(Names names, const std::string& config_text, const MappingOptions& mapping) {
  std::ranges::sort(names);
  const NameList list{"", config_text, std::move(names)};
  const auto check = checked(list, mapping);
  return check && 2 * check->dropped.size() < list.names.size() &&
         std::ranges::none_of(check->findings,
                              [](const CheckFinding& finding) { return finding.rule.empty(); });
}

// Returns the names that no rule of the family takes. Returns nothing if the rules don't have the
// model.
Names unknown_names(Names names, const std::string& config_text, const MappingOptions& mapping) {
  std::ranges::sort(names);
  Names out;
  const auto check = checked({"", config_text, std::move(names)}, mapping);
  if (!check) return out;
  for (const CheckFinding& finding : check->findings) {
    if (finding.rule.empty()) out.push_back(finding.tensor);
  }
  return out;
}

// Returns arrays that the model computes from its config, and no rule takes. A copy with the
// files' names keeps them.
Names buffers_among(const Names& names, const std::string& config_text,
                    const MappingOptions& mapping) {
  if (config_text.empty() || !has_rules(mapping)) return {};
  if (std::ranges::none_of(names, is_computed_buffer)) return {};
  if (!find_family(parse_json(config_text, "config.json"), mapping.files)) return {};
  Names out = unknown_names(names, without_codes(config_text, "config.json"), mapping);
  std::erase_if(out, [](const std::string& name) { return !is_computed_buffer(name); });
  return out;
}

// Returns the names with a prefix. An output head, which is outside the base model, keeps its name.
Names with_prefix(const Names& names, const std::string& prefix) {
  Names out;
  for (const std::string& name : names)
    out.push_back(name.starts_with("lm_head.") ? name : prefix + name);
  return out;
}

MappingOptions by_main_scheme(const MappingTable& table, const MappingOptions& asked) {
  MappingOptions out;
  out.scheme = table.main_scheme().name;
  out.files = asked.files;
  return out;
}

// Returns tensors that share the values of another one, which alone is stored. The file says so, or
// the config does.
std::vector<SharedName> stored_once(const Names& names, const Catalog& catalog,
                                    const std::string& config_text, const MappingOptions& mapping) {
  std::vector<SharedName> out = catalog.shared;
  std::erase_if(out, [&](const SharedName& pair) {
    return std::ranges::find(names, pair.stored) == names.end() ||
           std::ranges::find(names, pair.name) != names.end();
  });
  if (!out.empty()) return out;
  out = missing_twins(names, config_text, mapping);
  if (out.empty()) return out;
  // The model must lack nothing else. In a dialect, all tensors have other names.
  const std::string config = without_codes(config_text, "config.json");
  const auto family = find_family(parse_json(config, "config.json"), mapping.files);
  const MappingTable table = load_table(family.value());
  Names sorted = names;
  std::ranges::sort(sorted);
  const auto check = checked({"", config, std::move(sorted)}, by_main_scheme(table, mapping));
  const auto is_twin = [&](const CheckFinding& finding) {
    return std::ranges::find(out, finding.tensor, &SharedName::name) != out.end();
  };
  return check && std::ranges::all_of(check->findings, is_twin) ? out : std::vector<SharedName>{};
}

// Removes the name of a trainer's module that has the model as a member, such as "model." in
// PyTorch Lightning. All names that aren't left out must begin with it. The family must know the
// rest, and not the full names.
void take_outer_off(const MappingTable& table, const std::string& config,
                    const MappingOptions& asked, Undoing& undoing) {
  const Names names = undoing.kept();
  if (names.empty()) return;
  const std::string outer = names.front().substr(0, names.front().find('.') + 1);
  if (outer.size() < 2 || count_before(names, outer) != names.size()) return;
  const MappingOptions mapping = by_main_scheme(table, asked);
  if (are_known(names, config, mapping)) return;
  Names inner;
  for (const std::string& name : names) inner.push_back(name.substr(outer.size()));
  if (are_known(std::move(inner), config, mapping)) undoing.take_outer_off(outer);
}

void find_base_prefix(const MappingTable& table, const std::string& config,
                      const MappingOptions& asked, Undoing& undoing) {
  const MappingOptions mapping = by_main_scheme(table, asked);
  Names prefixes;
  try {
    prefixes = base_prefixes(table, parse_json(config, "config.json"));
  } catch (const Error& error) {  // compiling reports what the config lacks
    if (error.code() == ErrorCode::internal) throw;
  }
  std::erase_if(prefixes, [&](const std::string& prefix) {
    return count_before(undoing.names(), prefix) != 0;
  });
  if (prefixes.empty() || are_known(undoing.names(), config, mapping)) return;
  for (const std::string& prefix : prefixes) {
    const Names names = with_prefix(undoing.names(), prefix);
    if (!are_known(names, config, mapping)) continue;
    undoing.put_before(prefix, names);
    return;
  }
}

// Returns a name whose first components don't follow themselves: "model.layers.0" for
// "model.model.layers.0".
std::string without_repeats(const std::string& name) {
  Names out;
  bool in_front = true;
  for (const std::string& part : split(name, '.')) {
    in_front = in_front && !(part.empty() || is_digit(part.front()));
    if (!in_front || out.empty() || out.back() != part) out.push_back(part);
  }
  return join(out, ".");
}

// Undoes prefixes that a release of transformers wrote two or three times. The family must know
// the shorter names, and not the stored ones. Source: huggingface/transformers issue 46650.
void take_repeats_off(const MappingTable& table, const std::string& config,
                      const MappingOptions& asked, Undoing& undoing) {
  Names once;
  for (const std::string& name : undoing.names()) once.push_back(without_repeats(name));
  if (once == undoing.names()) return;
  const MappingOptions mapping = by_main_scheme(table, asked);
  if (are_known(undoing.names(), config, mapping) || !are_known(once, config, mapping)) return;
  undoing.take_repeats_off(std::move(once));
}

}  // namespace

std::string without_wrappers(std::string name) {
  for (const std::string_view wrapper : kAnywhere) take_wrapper_off(name, wrapper);
  return name;
}

std::string computed_note(const std::vector<std::string>& names) {
  return fmt::format("left out: {} that the model computes from its config: {}",
                     names.size() == 1 ? "1 array" : fmt::format("{} arrays", names.size()),
                     quoted_list(names, kShownNames));
}

bool takes_prefix_off(const MappingOptions& mapping) {
  return !mapping.prefix.empty() && mapping.scheme != "hf";
}

OwnNames own_names(const std::vector<std::string>& names, const std::string& config_text,
                   const std::string& location, const MappingOptions& mapping) {
  std::optional<FamilyFile> family;
  if (!config_text.empty())
    family = find_family(parse_json(config_text, config_path(location)), mapping.files);
  Undoing out(names, location, mapping);
  if (takes_prefix_off(mapping)) out.take_prefix_off(mapping);
  out.take_wrappers_off(family.has_value());
  if (!family) return out.finish();
  const MappingTable table = load_table(*family);
  const std::string config = without_codes(config_text, "config.json");
  take_repeats_off(table, config, mapping, out);
  take_outer_off(table, config, mapping, out);
  if (has_rules(mapping)) find_base_prefix(table, config, mapping, out);
  return out.finish();
}

std::optional<Catalog> under_rules_names(const Catalog& files, const MappingOptions& mapping) {
  MappingOptions by_rules;
  by_rules.files = mapping.files;
  Names names;
  for (const TensorInfo& tensor : files.tensors) names.push_back(tensor.name);
  const OwnNames own = own_names(names, files.config_text, files.location, by_rules);
  if (own.notes.empty()) return std::nullopt;
  Catalog out = files;
  for (std::size_t i = 0; i < own.names.size(); ++i) out.tensors[i].name = own.names[i];
  std::ranges::stable_sort(out.tensors, {}, &TensorInfo::name);
  return out;
}

void refuse_adapter_tensors(const Catalog& catalog, const std::string& config_text,
                            const MappingOptions& mapping) {
  if (config_text.empty()) return;
  const Json config = parse_json(config_text, config_path(catalog.location));
  if (!find_family(config, mapping.files)) return;
  std::size_t count = 0;
  const TensorInfo* first = nullptr;
  for (const TensorInfo& tensor : catalog.tensors) {
    if (!is_of_adapter(tensor.name) || left_out(mapping, tensor.name)) continue;
    if (count++ == 0) first = &tensor;
  }
  if (count == 0) return;
  throw Error(ErrorCode::unsupported, fmt::format("{} of {} tensors belong to an unmerged adapter",
                                                  count, catalog.tensors.size()))
      .in_file(catalog.file_name(*first))
      .in_tensor(first->name)
      .hint("merge the adapter first: model.merge_and_unload().save_pretrained(DIR)");
}

std::shared_ptr<const Checkpoint> with_names_if_any(std::shared_ptr<const Checkpoint> opened,
                                                    const StorePath& place,
                                                    const MappingOptions& mapping) {
  try {
    return with_own_names(opened, place, mapping);
  } catch (const Error& error) {  // convert refuses these names, but diff can compare them
    if (error.code() == ErrorCode::internal) throw;
    return opened;
  }
}

std::shared_ptr<const Checkpoint> with_own_names(std::shared_ptr<const Checkpoint> opened,
                                                 const StorePath& place,
                                                 const MappingOptions& mapping) {
  if (!takes_prefix_off(mapping) && !recorded_dialect(place).empty()) return opened;
  const std::string config_text = opened->catalog().config_text;
  return with_names_by_config(std::move(opened), config_text, mapping);
}

std::shared_ptr<const Checkpoint> with_names_by_config(std::shared_ptr<const Checkpoint> opened,
                                                       const std::string& config_text,
                                                       const MappingOptions& mapping) {
  std::vector<std::string> names;
  const Catalog& catalog = opened->catalog();
  for (const TensorInfo& tensor : catalog.tensors) names.push_back(tensor.name);
  OwnNames own = own_names(names, config_text, catalog.location, mapping);
  const Names computed = buffers_among(own.names, config_text, mapping);
  if (!computed.empty()) own.notes.push_back(computed_note(computed));
  std::vector<NamedArray> arrays;
  for (const SharedName& pair : stored_once(own.names, catalog, config_text, mapping)) {
    own.notes.push_back(
        fmt::format("{} shares its values with {}, which alone is stored; hfshard reads it as both",
                    quote(pair.name), quote(pair.stored)));
    const auto at = std::ranges::find(own.names, pair.stored) - own.names.begin();
    arrays.push_back({static_cast<std::uint32_t>(at), pair.name});
  }
  if (own.notes.empty()) return opened;
  for (std::uint32_t i = 0; i < own.names.size(); ++i) {
    if (std::ranges::find(computed, own.names[i]) == computed.end())
      arrays.push_back({i, std::move(own.names[i])});
  }
  return renamed(std::move(opened), std::move(arrays), own.notes);
}

}  // namespace hfshard
