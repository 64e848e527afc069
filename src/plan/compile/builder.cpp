#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {
namespace {

// The first glob that matches, or nullptr.
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
    if (std::ranges::any_of(catalog.tensors, [&](const TensorInfo& tensor) {
          return glob_match(glob, tensor.name);
        }))
      continue;
    throw Error(ErrorCode::usage, fmt::format("{} {} matches no tensor", flag, quote(glob)))
        .in_file(location)
        .hint(
            "a glob is for a whole name, as hfshard inspect prints them; quote it, or the shell "
            "takes it");
  }
}

}  // namespace

void check_globs(const MappingOptions& options, const Catalog& catalog,
                 const std::string& location) {
  check_globs("--include", options.include, catalog, location);
  check_globs("--exclude", options.exclude, catalog, location);
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
  for (std::uint32_t i = 0; i < catalog_.tensors.size(); ++i) {
    const auto asked = left_out(options, catalog_.tensors[i].name);
    if (!asked) continue;
    drop_whole(i, rule(asked->flag), asked->why);
    mark(i, TensorUse::excluded);
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

CompiledModel ModelBuilder::finish() {
  if (model_.leaves.empty()) {
    throw Error(ErrorCode::bad_input, "nothing is left to be written: no rule has a tensor")
        .in_file(catalog_.location)
        .hint("look at --include, --exclude and the tensors: hfshard inspect");
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

// Two tensors that a renaming gives one name.
void ModelBuilder::check_twice() const {
  const auto twice = std::ranges::adjacent_find(model_.leaves, {}, &Leaf::name);
  if (twice == model_.leaves.end()) return;
  throw Error(ErrorCode::bad_input, "two tensors would have this name").in_tensor(twice->name);
}

// A cast that nothing follows is a misspelt one.
void ModelBuilder::check_casts() const {
  for (const Cast& cast : options_.casts) {
    const auto matched = [&](const Leaf& leaf) { return glob_match(cast.glob, leaf.name); };
    if (std::ranges::any_of(model_.leaves, matched)) continue;
    throw Error(ErrorCode::usage, fmt::format("no leaf matches --cast {}", to_string(cast)))
        .hint("the glob is for dotted leaf paths, as plan prints them: *query.kernel");
  }
}

// In sorted order, whatever a path is a prefix of follows it; `open` holds the paths that the
// current one begins with.
void ModelBuilder::check_prefixes() const {
  std::vector<const std::string*> open;
  for (const Leaf& leaf : model_.leaves) {
    while (!open.empty() && !leaf.name.starts_with(*open.back())) open.pop_back();
    for (const std::string* shorter : open) {
      if (leaf.name.size() > shorter->size() && leaf.name[shorter->size()] != '.') continue;
      throw Error(ErrorCode::unsupported,
                  fmt::format("leaf {} would also have to be the branch of {}", quote(*shorter),
                              quote(leaf.name)))
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

void check_path(const std::string& path) {
  for (const std::string& key : split(path, '.')) {
    if (!key.empty() && key.find('/') == std::string::npos) continue;
    throw Error(ErrorCode::unsupported, fmt::format("name {} has {} component", quote(path),
                                                    key.empty() ? "an empty" : "a '/' in a"))
        .in_tensor(path)
        .hint("a tree path cannot hold it; leave the tensor out with --exclude");
  }
}

}  // namespace hfshard
