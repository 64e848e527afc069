#include "service/diff_objects.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "catalog/tree_structure.h"
#include "format/formats.h"
#include "mapping/tables/scheme_defaults.h"
#include "run/check/written_files.h"
#include "run/engine/stop.h"
#include "service/structure.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Kind = StructureDiff::Kind;

std::string transforms_text(const ObjectInfo& object) {
  return object.transforms.empty() ? "none" : join(object.transforms, ", ");
}

// Compares objects with the same name. Both sides are sorted.
class ObjectDiffer {
 public:
  ObjectDiffer(const DiffSide& a, const DiffSide& b, const RunOptions& run, DiffResult& out)
      : a_(a),
        b_(b),
        run_(run),
        out_(out),
        of_a_(a.catalog().object_files),
        of_b_(b.catalog().object_files) {}

  void run(const std::function<bool(std::string_view)>& is_wanted) {
    const std::vector<ObjectInfo>& left = a_.catalog().objects;
    const std::vector<ObjectInfo>& right = b_.catalog().objects;
    auto at = left.begin();
    auto other = right.begin();
    while (at != left.end() || other != right.end()) {
      const bool only_a = other == right.end() || (at != left.end() && at->name < other->name);
      const bool only_b = !only_a && (at == left.end() || other->name < at->name);
      const ObjectInfo& object = only_b ? *other : *at;
      if (is_wanted(object.name)) {
        if (only_a || only_b) {
          out_.structure.push_back(
              {only_a ? Kind::only_a : Kind::only_b, object.name, "an object that isn't a tensor"});
        } else {
          compare(*at, *other);
        }
      }
      if (!only_b) ++at;
      if (!only_a) ++other;
    }
  }

 private:
  void compare(const ObjectInfo& left, const ObjectInfo& right) {
    check_stop(run_);
    ++out_.compared_objects;
    const auto a = digest(a_, of_a_, left, "A");
    const auto b = digest(b_, of_b_, right, "B");
    if (!a || !b || *a == *b) return;
    if (left.transforms == right.transforms) {
      out_.structure.push_back({Kind::differs, left.name, "the objects hold different bytes"});
      return;
    }
    out_.structure.push_back(
        {Kind::differs, left.name,
         fmt::format("the stored bytes differ, and their transforms differ: {} in A, {} in B",
                     transforms_text(left), transforms_text(right))});
  }

  std::optional<std::string> digest(const DiffSide& side, const ObjectReader& reader,
                                    const ObjectInfo& object, std::string_view which) {
    try {
      return side.checkpoint->object_digest(reader, object);
    } catch (const Error& error) {  // damage is a difference
      if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
      out_.structure.push_back(
          {Kind::damaged, object.name,
           fmt::format("{}: {} (in {})", which, error.sentence(), error.file())});
      return std::nullopt;
    }
  }

  const DiffSide& a_;
  const DiffSide& b_;
  const RunOptions& run_;
  DiffResult& out_;
  ObjectReader of_a_;
  ObjectReader of_b_;
};

void note_uncompared(const DiffSide& side, std::string_view which, DiffResult& out) {
  const std::vector<ObjectInfo>& objects = side.catalog().objects;
  if (objects.empty()) return;
  std::vector<std::string> names;
  names.reserve(objects.size());
  for (const ObjectInfo& object : objects) names.push_back(object.name);
  out.notes.push_back(
      fmt::format("not compared, since the other side can't hold objects: {} of {} "
                  "({})",
                  objects.size() == 1 ? "1 object" : fmt::format("{} objects", objects.size()),
                  which, quoted_list(names)));
}

// Notes the nodes of a tree that aren't arrays, when only arrays are compared.
void note_structure(const DiffSide& side, const DiffSide& other, std::string_view which,
                    DiffResult& out) {
  if (side.catalog().structure == nullptr) return;
  const TreeStructure& tree = *side.catalog().structure;
  // hfshard's own trees have an empty node that loaders need, and metadata that hfshard records.
  const bool is_ours = side.catalog().writer.starts_with("hfshard");
  const std::string known = is_ours ? tree_extras(tree_format(side.place)->scheme()).empty : "";
  const BeyondArrays found = beyond_arrays(tree, known);
  const auto note = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    out.notes.push_back(
        fmt::format("not compared, since {}: the {} {} of {}",
                    other.catalog().structure == nullptr
                        ? "the other side can't hold them"
                        : "the trees differ in layout, and their arrays are compared as a model's",
                    what, quoted_list(names), which));
  };
  note("strings and empty nodes", found.nodes);
  if (!is_ours) note("custom metadata", found.custom_metadata);
  note("tuples and named tuples", found.tuples);
  note("random-key generators", found.random_keys);
}

// Returns the keys of a name in readable form: ["model", 0, "weight"].
std::string keys_text(const Catalog& catalog, const std::string& name) {
  const std::string_view keys = nested_keys(catalog.nested, name);
  return keys.empty() ? fmt::format("[{}]", quote(name)) : shown_json(parse_json(keys, name));
}

void diff_nested(const Catalog& a, const Catalog& b,
                 const std::function<bool(std::string_view)>& is_wanted, DiffResult& out) {
  const auto compare = [&](const std::string& name) {
    const bool same = nested_keys(a.nested, name) == nested_keys(b.nested, name);
    if (same || !is_wanted(name)) return;
    out.structure.push_back({Kind::differs, name,
                             fmt::format("the keys that lead to it are {} in A, {} in B",
                                         keys_text(a, name), keys_text(b, name))});
  };
  if (a.nested == b.nested) return;
  for (const TensorInfo& info : a.tensors) {
    if (b.find(info.name)) compare(info.name);
  }
  for (const ObjectInfo& object : a.objects) {
    const auto in_b = std::ranges::lower_bound(b.objects, object.name, {}, &ObjectInfo::name);
    if (in_b != b.objects.end() && in_b->name == object.name) compare(object.name);
  }
}

// Returns the tree of a side. Clears the item's name if the side is the item's own path.
TreeStructure structure_of(const DiffSide& side) {
  TreeStructure out = *side.catalog().structure;
  if (entry_name(side.place.name()) == out.item) out.item.clear();
  return out;
}

void diff_trees(const DiffSide& a, const DiffSide& b,
                const std::function<bool(std::string_view)>& is_wanted, DiffResult& out) {
  if (a.catalog().structure == nullptr || b.catalog().structure == nullptr) return;
  for (StructureDifference& item : compare_structures(structure_of(a), structure_of(b))) {
    using Which = StructureDifference::Side;
    if (!item.path.empty() && !is_wanted(item.path)) continue;
    const Kind kind = item.only == Which::a   ? Kind::only_a
                      : item.only == Which::b ? Kind::only_b
                                              : Kind::differs;
    out.structure.push_back({kind, std::move(item.path), std::move(item.what)});
  }
}

// Returns the arrays of a tree, without their restore types.
TreeStructure arrays_of(const TreeStructure& tree) {
  TreeStructure out;
  for (const TreeEntry& entry : tree.entries) {
    if (entry.kind != TreeEntry::Kind::array) continue;
    out.entries.push_back(entry);
    out.entries.back().type.clear();
    out.entries.back().random_key.clear();
  }
  return out;
}

// Compares the roots of two checkpoints, one of which only has names without lists (null). The root
// of such a state is a dict.
void diff_root_kinds(const TreeStructure* left, const TreeStructure* right, DiffResult& out) {
  const auto is_list = [](const TreeStructure* tree) {
    if (tree == nullptr || tree->entries.empty()) return false;
    const std::vector<std::uint32_t>& ends = tree->entries.front().ends;
    return !ends.empty() && ends.front() % 2 == 1;
  };
  if (is_list(left) == is_list(right)) return;
  const std::string_view what =
      is_list(left) ? "a list in A, a dict in B" : "a dict in A, a list in B";
  out.structure.push_back({Kind::differs, "", std::string(what)});
}

// Compares the keys of the arrays in two formats. A list can have become a dict.
void diff_keys(const DiffSide& a, const DiffSide& b,
               const std::function<bool(std::string_view)>& is_wanted, DiffResult& out) {
  const auto tree_of = [](const Catalog& catalog) {
    return catalog.structure != nullptr ? catalog.structure : structure_of_keys(catalog);
  };
  const auto left = tree_of(a.catalog());
  const auto right = tree_of(b.catalog());
  if (left == nullptr || right == nullptr) {
    if (is_wanted("")) diff_root_kinds(left.get(), right.get(), out);
    return;
  }
  for (StructureDifference& item : compare_structures(arrays_of(*left), arrays_of(*right))) {
    if (is_wanted(item.path))
      out.structure.push_back({Kind::differs, std::move(item.path), std::move(item.what)});
  }
}

std::vector<std::string> items_beside(const DiffSide& side) {
  const Format* format = tree_format(side.place);
  return format == nullptr ? std::vector<std::string>()
                           : format->other_items(side.place, side.choice);
}

// Returns files about the run in the root around the step, if the user names the root.
std::vector<std::string> root_files(const DiffSide& side) {
  const Format* format = tree_format(side.place);
  if (format == nullptr || !side.taken) return {};
  return format->root_files(side.place.parent());
}

void diff_roots(const DiffSide& a, const DiffSide& b, DiffResult& out) {
  if (!a.taken || !b.taken) return;
  const std::vector<std::string> in_a = root_files(a);
  const std::vector<std::string> in_b = root_files(b);
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (const std::string& name : in_b)
    if (!has(in_a, name)) out.structure.push_back({Kind::only_b, name, "metadata of the run"});
  for (const std::string& name : in_a) {
    if (!has(in_b, name)) {
      out.structure.push_back({Kind::only_a, name, "metadata of the run"});
    } else if ((a.place.parent() / name).read() != (b.place.parent() / name).read()) {
      out.structure.push_back({Kind::differs, name, "the files hold different bytes"});
    }
  }
}

// Orbax writes this file into a complete item. It contains the item's own path. Source:
// google/orbax checkpoint/orbax/checkpoint/_src/path/atomicity.py.
constexpr std::string_view kCommitFile = "commit_success.txt";

// An item next to the compared tree, by paths in the step.
struct ItemParts {
  std::vector<std::string> trees;  // the item itself, or below it, as for a random key
  std::vector<std::string> files;  // outside these trees
};

ItemParts parts_of_item(const DiffSide& side, const std::string& item) {
  ItemParts out;
  const Format* format = tree_format(side.place);
  for (const std::string& file : format->beside(side.place, side.choice).files) {
    if (file != item && !file.starts_with(item + "/")) continue;
    if (!out.trees.empty() && file.starts_with(out.trees.back() + "/")) continue;
    std::string tree;
    for (std::size_t end = item.size(); end < file.size() && tree.empty();
         end = std::min(file.find('/', end + 1), file.size())) {
      if (format->is_tree(side.place / file.substr(0, end))) tree = file.substr(0, end);
    }
    if (!tree.empty()) {
      out.trees.push_back(std::move(tree));
    } else if (entry_name(file) != kCommitFile) {
      out.files.push_back(file);
    }
  }
  return out;
}

// Returns whether two files have the same bytes, or are equal as JSON.
bool is_same_file(const StorePath& a, const StorePath& b, const RunOptions& run) {
  constexpr std::uint64_t kMaxJsonBytes = std::uint64_t{16} << 20;
  const auto left = a.open();
  const auto right = b.open();
  if (left->size_bytes() == right->size_bytes() && sha256_of(*left, run) == sha256_of(*right, run))
    return true;
  if (std::max(left->size_bytes(), right->size_bytes()) > kMaxJsonBytes) return false;
  try {
    return parse_json(a.read(), a.text()) == parse_json(b.read(), b.text());
  } catch (const Error& error) {  // it isn't JSON
    if (error.code() == ErrorCode::io) throw;
    return false;
  }
}

// Adds to `trees` those of the item that both sides have.
void diff_item(const DiffSide& a, const DiffSide& b, const std::string& item, const RunOptions& run,
               std::vector<std::string>& trees, DiffResult& out) {
  const ItemParts in_a = parts_of_item(a, item);
  const ItemParts in_b = parts_of_item(b, item);
  if (in_a.files != in_b.files || in_a.trees != in_b.trees) {
    out.structure.push_back({Kind::differs, item, "the item has other files"});
    return;
  }
  for (const std::string& file : in_a.files) {
    if (!is_same_file(a.place / file, b.place / file, run))
      out.structure.push_back({Kind::differs, file, "the files hold different bytes"});
  }
  std::ranges::copy(in_a.trees, std::back_inserter(trees));
}

// Compares the items next to the compared trees, apart from their trees.
std::vector<std::string> diff_items(const DiffSide& a, const DiffSide& b, const RunOptions& run,
                                    DiffResult& out) {
  std::vector<std::string> trees;
  if (a.other_item || b.other_item) return trees;
  const std::vector<std::string> in_a = items_beside(a);
  const std::vector<std::string> in_b = items_beside(b);
  std::vector<std::string> both;
  std::ranges::set_intersection(in_a, in_b, std::back_inserter(both));
  const auto add = [&](const std::vector<std::string>& names, Kind kind) {
    for (const std::string& name : names) {
      if (!std::ranges::binary_search(both, name))
        out.structure.push_back({kind, name, "an item of the step"});
    }
  };
  add(in_a, Kind::only_a);
  add(in_b, Kind::only_b);
  for (const std::string& item : both) diff_item(a, b, item, run, trees, out);
  return trees;
}

}  // namespace

std::string_view to_string(StructureDiff::Kind kind) noexcept {
  switch (kind) {
    case Kind::differs:
      return "differs";
    case Kind::damaged:
      return "damaged";
    case Kind::only_a:
      return "only_a";
    case Kind::only_b:
      break;
  }
  return "only_b";
}

std::vector<std::string> diff_objects(const DiffSide& a, const DiffSide& b,
                                      const std::function<bool(std::string_view)>& is_wanted,
                                      const RunOptions& run, DiffResult& out) {
  const bool alike = out.through.empty() && !a.is_model && !b.is_model &&
                     a.catalog().wording.kind == b.catalog().wording.kind;
  if (!alike) {
    note_uncompared(a, "A", out);
    note_uncompared(b, "B", out);
    note_structure(a, b, "A", out);
    note_structure(b, a, "B", out);
    if (out.through.empty() && !a.is_model && !b.is_model) diff_keys(a, b, is_wanted, out);
    return {};
  }
  ObjectDiffer(a, b, run, out).run(is_wanted);
  diff_nested(a.catalog(), b.catalog(), is_wanted, out);
  diff_trees(a, b, is_wanted, out);
  std::vector<std::string> trees = diff_items(a, b, run, out);
  diff_roots(a, b, out);
  return trees;
}

}  // namespace hfshard
