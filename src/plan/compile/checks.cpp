#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/config_keys.h"
#include "plan/compile/missing_layers.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kNamedTensors = 3;
constexpr const char* kVocabulary = "vocab_size";

// The cause of an axis with `actual` elements: its only dim for which the other dims divide
// `actual`, or all of its dims.
struct AxisFault {
  ExprInputs inputs;
  std::uint64_t expected = 0;
  std::uint64_t actual = 0;
  bool one_dim = true;  // else any of them can be wrong
};

AxisFault explain(const PatternNode& node, std::uint64_t expected, std::uint64_t actual,
                  const Bindings& bindings) {
  const MappingTable& table = bindings.table();
  std::vector<std::string> dims;
  collect_dims(node, dims);
  std::vector<AxisFault> faults;
  for (std::size_t i = dims.size(); !node.offset && i-- > 0;) {
    const std::uint64_t extent = bindings.extent(dims[i]);
    if (extent == 0 || expected % extent != 0) continue;
    const std::uint64_t others = expected / extent;
    if (others != 0 && actual % others == 0)
      faults.push_back({inputs_of(table, dims[i]), extent, actual / others});
  }
  if (faults.size() == 1) return std::move(faults.front());
  if (node.total) return {inputs_of(table, *node.total), expected, actual};
  ExprInputs all;
  for (const std::string& dim : dims) {
    for (std::string& key : inputs_of(table, dim).keys) {
      if (std::ranges::find(all.keys, key) == all.keys.end()) all.keys.push_back(std::move(key));
    }
  }
  return {std::move(all), expected, actual, dims.size() == 1};
}

std::string sentence_of(const AxisFault& fault, const Shape& shape, const Bindings& bindings) {
  const std::vector<std::string>& keys = fault.inputs.keys;
  const std::string tensor =
      fmt::format("the tensor has {} ({}), which is {}", fault.actual, to_string(shape),
                  fault.actual > fault.expected ? "larger" : "smaller");
  if (keys.empty()) return fmt::format("the rule needs {}, and {}", fault.expected, tensor);
  std::vector<std::string> equal;  // keys that are the size themselves
  for (const std::string& key : keys) {
    const ExprValue value = bindings.lookup(key);
    const auto* number = std::get_if<std::int64_t>(&value);
    if (fault.one_dim && number != nullptr && static_cast<std::uint64_t>(*number) == fault.expected)
      equal.push_back(key);
  }
  if (equal.size() == 1)
    return fmt::format("{} in config.json is {}, and {}", equal.front(), fault.expected, tensor);
  return fmt::format("config.json implies a size of {} ({}), and {}", fault.expected,
                     join(keys, ", "), tensor);
}

// Returns the other one of a model's embedding and head, if it has as many rows as config.json
// says.
const TensorInfo* twin_of(const Catalog& catalog, const TensorInfo& tensor, std::uint64_t rows) {
  const auto is_one = [](std::string_view name) {
    return name.ends_with("head.weight") || name.ends_with("embed_tokens.weight") ||
           name == "embed.weight";
  };
  if (!is_one(tensor.name)) return nullptr;
  const auto found = std::ranges::find_if(catalog.tensors, [&](const TensorInfo& other) {
    return is_one(other.name) && other.shape.rank() == 2 && other.shape[0] == rows;
  });
  return found == catalog.tensors.end() ? nullptr : &*found;
}

std::string hint_of(const AxisFault& fault, const Catalog& catalog, const TensorInfo& tensor) {
  if (fault.inputs.keys == std::vector<std::string>{kVocabulary}) {
    if (const TensorInfo* twin = twin_of(catalog, tensor, fault.expected)) {
      return fmt::format(
          "{} has {} rows; give both the same number first (resize_token_embeddings in "
          "transformers), or pass --scheme hf --include '*' to keep both as they are",
          quote(twin->name), fault.expected);
    }
    return fmt::format(
        "if you added or removed tokens, set \"{}\": {} in config.json; --vocab N then pads or "
        "cuts the vocabulary",
        kVocabulary, fault.actual);
  }
  return "check that config.json belongs to this model; if it does, the family may be wrong";
}

// Makes `model.layers.7.mlp` and `model.layers.{l}.mlp` the same text.
std::string without_counters(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '{') {
      const std::size_t close = name.find('}', i);
      out += "{}";
      i = close == std::string_view::npos ? name.size() : close;
    } else if (std::isdigit(static_cast<unsigned char>(name[i])) != 0 &&
               (i == 0 || name[i - 1] == '.')) {
      out += "{}";
      while (i + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[i + 1])) != 0) ++i;
    } else {
      out += name[i];
    }
  }
  return out;
}

// Returns a name with `*` for each counter in braces.
std::string with_stars(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    out += name[i] == '{' ? '*' : name[i];
    if (name[i] == '{') i = std::min(name.find('}', i), name.size());
  }
  return out;
}

// Returns the source names of all rules, with their loops.
std::vector<std::string> written_names(const Scheme& scheme, const Bindings& bindings) {
  std::vector<std::string> out;
  for (const Rule& rule : scheme.global) out.push_back(rule.source.shown(bindings));
  for (const LayerGroup& group : scheme.groups) {
    for (const Rule& rule : group.rules)
      out.push_back(group.hf.shown(bindings) + rule.source.shown(bindings));
  }
  return out;
}

std::vector<std::string> nearest_rules(const Scheme& scheme, const Bindings& bindings,
                                       std::string_view tensor) {
  const std::vector<std::string> written = written_names(scheme, bindings);
  std::vector<std::string> plain;
  plain.reserve(written.size());
  for (const std::string& name : written) plain.push_back(without_counters(name));
  std::vector<std::string> out;
  for (const std::string& near : near_names(without_counters(tensor), plain, 2)) {
    const auto found = std::ranges::find(plain, near);
    if (found == plain.end()) continue;
    const std::string name = with_stars(written[static_cast<std::size_t>(found - plain.begin())]);
    if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  }
  return out;
}

[[noreturn]] void fail_unmatched(const MappingTable& table, const Scheme& scheme,
                                 const Bindings& bindings,
                                 const std::vector<std::string>& unmatched,
                                 const std::vector<MissingTensor>& missing) {
  for (const std::string& name : unmatched) {
    if (const UndecodedMethod* method = quantization().undecoded_name(name))
      throw undecoded(*method).in_tensor(name);
  }
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(kNamedTensors, unmatched.size()); ++i) {
    named.push_back(quote(unmatched[i]));
  }
  std::string hint;
  std::vector<std::string> near = nearest_rules(scheme, bindings, unmatched.front());
  const auto takes = [&](const std::string& glob) { return glob_match(glob, unmatched.front()); };
  if (std::ranges::any_of(near, takes)) {
    hint = "the rule for this name doesn't apply to this config.json; ";
  } else if (!near.empty()) {
    std::ranges::transform(near, near.begin(), [](const std::string& name) { return quote(name); });
    hint = fmt::format("the nearest {} for {}; ", near.size() == 1 ? "rule is" : "rules are",
                       join(near, " and "));
  }
  if (missing.size() == 1)
    hint += fmt::format("a tensor that a rule needs is missing: {}; ", quote(missing.front().name));
  if (missing.size() > 1) {
    hint += fmt::format("{} tensors that the rules need are missing, first {}; ", missing.size(),
                        quote(missing.front().name));
  }
  hint += "pass --exclude to leave tensors out, or --scheme hf to keep names and shapes";
  Error error(ErrorCode::bad_input,
              fmt::format("{} tensor{} no rule of family {}: {}{}", unmatched.size(),
                          unmatched.size() == 1 ? " matches" : "s match", quote(table.family),
                          join(named, ", "), unmatched.size() > kNamedTensors ? ", ..." : ""));
  throw error.in_tensor(unmatched.front()).hint(hint);
}

[[noreturn]] void fail_untied(const MissingTensor& head) {
  throw Error(ErrorCode::not_found,
              "the source lacks an output head, and config.json doesn't tie it to the embedding")
      .in_tensor(head.name)
      .by_rule(head.rule)
      .hint(
          "if the model shares its embedding with the head, set \"tie_word_embeddings\": true in "
          "config.json; else add the head, or pass --scheme hf --include '*' to keep what is "
          "there");
}

[[noreturn]] void fail_missing(const ModelBuilder& builder,
                               const std::vector<MissingTensor>& missing) {
  const Catalog& catalog = builder.catalog();
  std::string hint =
      "this checkpoint was made without it; convert the model itself, or make the checkpoint again "
      "with it";
  if (!catalog.files.empty()) {
    std::vector<std::string> names;
    names.reserve(missing.size());
    for (const MissingTensor& tensor : missing) names.push_back(tensor.name);
    std::vector<std::string> wanted = names;
    for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
      if (builder.use(i) == TensorUse::mapped) wanted.push_back(catalog.tensors[i].name);
    }
    const std::string layers = missing_layers(wanted, names);
    hint = layers.empty()
               ? std::string("config.json expects it; check that the download is complete")
               : layers +
                     "; if layers were removed from the model, correct config.json, else check "
                     "that the download is complete";
  }
  throw Error(ErrorCode::not_found,
              missing.size() == 1
                  ? std::string("the source lacks a tensor that a rule needs")
                  : fmt::format("the source lacks {} tensors that rules need", missing.size()))
      .in_tensor(missing.front().name)
      .by_rule(missing.front().rule)
      .hint(hint);
}

}  // namespace

void check_shape(const Catalog& catalog, const TensorInfo& tensor, const Pattern& pattern,
                 const Shape& expected, const Bindings& bindings, std::string_view pointer) {
  if (tensor.shape == expected) return;
  const auto fail = [&](const std::string& sentence, const std::string& hint) {
    throw Error(ErrorCode::bad_input, sentence)
        .in_file(catalog.file_name(tensor))
        .in_tensor(tensor.name)
        .by_rule(pointer)
        .hint(hint);
  };
  if (tensor.shape.rank() != expected.rank()) {
    fail(fmt::format("the tensor is {}; config.json says {}", to_string(tensor.shape),
                     to_string(expected)),
         hint_of({}, catalog, tensor));
  }
  for (std::size_t axis = 0; axis < expected.rank(); ++axis) {
    if (tensor.shape[axis] == expected[axis]) continue;
    const AxisFault fault =
        explain(pattern.axes[axis], expected[axis], tensor.shape[axis], bindings);
    fail(sentence_of(fault, tensor.shape, bindings), hint_of(fault, catalog, tensor));
  }
}

void check_all_used(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
                    const ModelBuilder& builder, const std::vector<MissingTensor>& missing) {
  std::vector<std::string> unmatched;
  const Catalog& catalog = builder.catalog();
  for (std::uint32_t i = 0; scheme.rest.empty() && i < catalog.tensors.size(); ++i) {
    if (builder.use(i) == TensorUse::none) unmatched.push_back(catalog.tensors[i].name);
  }
  if (!unmatched.empty()) fail_unmatched(table, scheme, bindings, unmatched, missing);
  if (missing.empty()) return;
  if (std::ranges::all_of(missing, &MissingTensor::untied)) fail_untied(missing.front());
  fail_missing(builder, missing);
}

}  // namespace hfshard
