#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "catalog/object.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {
namespace {

// Returns the first glob that matches, or nullptr.
const std::string* first_match(const std::vector<std::string>& globs, std::string_view name) {
  for (const std::string& glob : globs) {
    if (glob_match(glob, name)) return &glob;
  }
  return nullptr;
}

// Throws: usage, if a glob matches no tensor.
void check_globs(std::string_view flag, const std::vector<std::string>& globs,
                 const Catalog& catalog, const std::string& location) {
  for (const std::string& glob : globs) {
    const auto fits = [&](const auto& item) { return glob_match(glob, item.name); };
    if (std::ranges::any_of(catalog.tensors, fits) || std::ranges::any_of(catalog.objects, fits) ||
        std::ranges::any_of(catalog.unreadable, fits))
      continue;
    if (catalog.structure != nullptr &&
        std::ranges::any_of(catalog.structure->entries, [&](const TreeEntry& entry) {
          return entry.kind != TreeEntry::Kind::array && glob_match(glob, entry.path);
        }))
      continue;
    throw Error(ErrorCode::usage, fmt::format("{} {} doesn't match any tensor", flag, quote(glob)))
        .in_file(location)
        .hint(
            "a glob must match a whole name, as hfshard inspect prints it; quote it for the shell");
  }
}

// Recognizes it by its name, outside of layers: head.weight, lm_head.weight, logits_dense.kernel,
// output.weight.
bool is_output_head(const std::string& name) {
  const std::vector<std::string> keys = split(name, '.');
  if (keys.size() < 2 || name.find("layers") != std::string::npos) return false;
  const std::string& key = keys[keys.size() - 2];
  return key == "head" || key == "lm_head" || key == "logits_dense" || key == "output";
}

}  // namespace

void check_globs(const MappingOptions& options, const Catalog& catalog,
                 const std::string& location) {
  check_globs("--include", options.include, catalog, location);
  check_globs("--exclude", options.exclude, catalog, location);
}

const std::string* accepted_loss(const MappingOptions& options, std::string_view name) {
  return first_match(options.drop, name);
}

std::string accepted_why(const std::string& glob) { return fmt::format("--drop {}", quote(glob)); }

std::string drop_hint(const MappingOptions& options, const std::vector<std::string>& names,
                      bool whole) {
  constexpr std::size_t kShown = 8;
  std::string flags;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    flags += fmt::format("{}--drop '{}'", i == 0 ? "" : " ", names[i]);
  if (names.size() > kShown) flags += fmt::format(" and {} more", names.size() - kShown);
  const bool unties = whole && !options.untie && std::ranges::any_of(names, is_output_head);
  return fmt::format("pass {}{} to accept the loss",
                     unties ? "--untie to keep the output head next to the embedding, or " : "",
                     flags);
}

std::string and_others(std::size_t count) {
  if (count < 2) return {};
  return count == 2 ? "; 1 other is similar" : fmt::format("; {} others are similar", count - 1);
}

std::optional<LeftOut> left_out(const MappingOptions& options, std::string_view name) {
  if (const std::string* glob = first_match(options.exclude, name))
    return LeftOut{"--exclude", fmt::format("--exclude {}", quote(*glob))};
  if (options.include.empty() || first_match(options.include, name) != nullptr) return std::nullopt;
  return LeftOut{"--include", "not in --include"};
}

ModelBuilder::ModelBuilder(const Catalog& catalog, const MappingOptions& options)
    : catalog_(catalog), options_(options), uses_(catalog.tensors.size(), TensorUse::none) {
  model_.scheme = options.scheme;
  exclude(options);
}

void ModelBuilder::exclude(const MappingOptions& options) {
  check_globs(options, catalog_, catalog_.location);
  check_globs("--drop", options.drop, catalog_, catalog_.location);
  for (std::uint32_t i = 0; i < catalog_.tensors.size(); ++i) {
    const auto asked = left_out(options, catalog_.tensors[i].name);
    if (!asked) continue;
    drop_whole(i, rule(asked->flag), asked->why);
    mark(i, TensorUse::excluded);
  }
  for (const UnreadableArray& array : catalog_.unreadable) {
    if (const auto asked = left_out(options, array.name))
      model_.notes.push_back(fmt::format("not converted: {}: {}", quote(array.name), asked->why));
  }
}

void ModelBuilder::leave_out(const std::vector<std::string>& prefixes, const std::string& why) {
  const std::vector<TensorInfo>& tensors = catalog_.tensors;
  for (const std::string& prefix : prefixes) {
    for (auto at = std::ranges::lower_bound(tensors, prefix, {}, &TensorInfo::name);
         at != tensors.end() && at->name.starts_with(prefix); ++at) {
      const auto tensor = static_cast<std::uint32_t>(at - tensors.begin());
      if (excluded(tensor)) continue;
      drop_whole(tensor, rule(kNumLayers), why);
      mark(tensor, TensorUse::excluded);
    }
  }
}

std::uint32_t ModelBuilder::rule(std::string_view pointer) {
  const auto [found, added] =
      rules_.emplace(std::string(pointer), static_cast<std::uint32_t>(model_.rules.size()));
  if (added) model_.rules.emplace_back(pointer);
  return found->second;
}

void ModelBuilder::drop_whole(std::uint32_t tensor, std::uint32_t rule, std::string why) {
  Drop drop;
  drop.source = tensor;
  drop.rule = rule;
  drop.map = identity_map(catalog_.tensors[tensor].shape);
  drop.why = std::move(why);
  model_.drops.push_back(std::move(drop));
}

// Returns whether an output could have an object but no array. For a family, whose rules name
// tensors, objects alone aren't a model.
bool ModelBuilder::has_objects() const {
  return model_.family == kNoFamily &&
         std::ranges::any_of(catalog_.objects, [&](const ObjectInfo& object) {
           return !left_out(options_, object.name);
         });
}

CompiledModel ModelBuilder::finish() {
  if (catalog_.tensors.empty() && !has_objects()) {
    throw Error(ErrorCode::bad_input, "the checkpoint has no arrays")
        .in_file(catalog_.location)
        .hint(catalog_.wording.has_files
                  ? "check that the download is complete: its weight files have no tensors"
                  : "copy the directory: nothing in it depends on a mesh or a dtype");
  }
  if (model_.leaves.empty() && !has_objects()) {
    throw Error(ErrorCode::bad_input, "nothing is left to write: no rule has a tensor")
        .in_file(catalog_.location)
        .hint("check --include and --exclude against the tensors: hfshard inspect");
  }
  if (!std::ranges::is_sorted(model_.leaves, {}, &Leaf::name)) sort_leaves();
  check_twice();
  if (!options_.flat_names) check_prefixes();
  check_casts();
  return std::move(model_);
}

void ModelBuilder::sort_leaves() {
  std::vector<std::uint32_t> order(model_.leaves.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {},
                    [&](std::uint32_t i) { return std::string_view(model_.leaves[i].name); });
  std::vector<Leaf> sorted;
  sorted.reserve(order.size());
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    sorted.push_back(std::move(model_.leaves[order[i]]));
    place[order[i]] = i;
  }
  model_.leaves = std::move(sorted);
  for (Transfer& transfer : model_.transfers) transfer.target = place[transfer.target];
  for (Fill& fill : model_.fills) fill.target = place[fill.target];
}

void drop_beside_codes(ModelBuilder& builder) {
  const std::vector<TensorInfo>& tensors = builder.catalog().tensors;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (builder.use(i) != TensorUse::none) continue;
    const BesideCodes* beside = quantization().beside_codes(tensors[i].name);
    if (beside == nullptr) continue;
    builder.drop_whole(i, builder.rule(kBesideCodes), beside->why);
    builder.mark(i, TensorUse::dropped);
  }
}

// Refuses two tensors that a renaming gives the same name.
void ModelBuilder::check_twice() const {
  const auto twice = std::ranges::adjacent_find(model_.leaves, {}, &Leaf::name);
  if (twice == model_.leaves.end()) return;
  throw Error(ErrorCode::bad_input, "two tensors would have this name").in_tensor(twice->name);
}

// A cast without effect is misspelled, or is for integers, which are never cast.
void ModelBuilder::check_casts() const {
  for (const Cast& cast : options_.casts) {
    const Leaf* found = nullptr;
    for (const Leaf& leaf : model_.leaves) {
      if (!glob_match(cast.glob, leaf.name)) continue;
      if (found == nullptr || is_float(leaf.dtype)) found = &leaf;
      if (is_float(leaf.dtype)) break;
    }
    if (found == nullptr) {
      throw Error(ErrorCode::usage,
                  fmt::format("--cast {} doesn't match any leaf", to_string(cast)))
          .hint("the glob must match a dotted leaf path, as hfshard plan prints it: *query.kernel");
    }
    if (!is_float(found->dtype)) {
      throw Error(ErrorCode::usage,
                  fmt::format("--cast {} doesn't match any float array: {} is {}", to_string(cast),
                              quote(found->name), to_string(found->dtype)))
          .hint("integers and booleans keep their dtype; leave out this --cast");
    }
  }
}

// In sorted order, a path comes before those that it is a prefix of. `open` has the prefixes of the
// current path.
void ModelBuilder::check_prefixes() const {
  std::vector<const std::string*> open;
  for (const Leaf& leaf : model_.leaves) {
    while (!open.empty() && !leaf.name.starts_with(*open.back())) open.pop_back();
    for (const std::string* shorter : open) {
      if (leaf.name[shorter->size()] != '.') continue;  // names differ (check_twice)
      throw Error(ErrorCode::unsupported, fmt::format("leaf {} is also the branch of {}",
                                                      quote(*shorter), quote(leaf.name)))
          .in_tensor(*shorter)
          .hint("leave one of them out with --exclude");
    }
    open.push_back(&leaf.name);
  }
}

std::uint64_t loop_offset(const Transfer& transfer, std::uint64_t number) noexcept {
  std::uint64_t out = 0;
  for (std::size_t k = transfer.loops.size(); k-- > 0;) {
    const Loop& loop = transfer.loops[k];
    out += number % loop.extent * static_cast<std::uint64_t>(loop.dst_step);
    number /= loop.extent;
  }
  return out;
}

bool is_one_array(const Transfer& transfer, const Shape& leaf) {
  return transfer.sources.size() == 1 && transfer.value.empty() && !transfer.decode &&
         normalize(transfer.map) == normalize(identity_map(leaf));
}

void check_path(const std::string& path) {
  for (const std::string& key : split(path, '.')) {
    if (!key.empty() && key.find('/') == std::string::npos) continue;
    throw Error(ErrorCode::unsupported, fmt::format("name {} has {} component", quote(path),
                                                    key.empty() ? "an empty" : "a '/' in a"))
        .in_tensor(path)
        .hint("a tree path can't hold it; leave the tensor out with --exclude");
  }
}

}  // namespace hfshard
