#include "format/orbax/metadata.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/crc32c.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "format/orbax/array_keys.h"
#include "format/orbax/buffered.h"
#include "format/orbax/key_order.h"
#include "format/orbax/ocdbt/manifest.h"
#include "format/orbax/structure.h"
#include "format/orbax/zarr/array.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

// Every time in the output is this one, so the output is deterministic.
constexpr std::uint64_t kTimeNs = 1700000000000000000;
constexpr std::string_view kHandler =
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler";

zarr::Array array_of(const TreeSpec& tree, std::size_t index) {
  const Leaf& leaf = (*tree.leaves)[index];
  const Grid& grid = (*tree.grids)[index];
  try {
    return zarr::make_array(leaf.dtype, leaf.shape, grid, tree.encoding);
  } catch (Error& error) {  // only here is the leaf known
    throw error.in_tensor(leaf.name);
  }
}

std::string step_value(const TreeSpec& tree) {
  std::array<std::byte, 8> bytes{};
  store_le(bytes.data(), tree.step);
  std::string out(as_text(bytes));
  if (!tree.encoding.checksum) return out;
  std::array<std::byte, 4> suffix{};
  store_le(suffix.data(), crc32c(bytes));
  out += as_text(suffix);
  return out;
}

void add_step(const TreeSpec& tree, ocdbt::TreeWriter& writer) {
  const zarr::Array array = zarr::make_array(DType::i64, {}, {}, {}, {tree.encoding.checksum});
  writer.add_inline(fmt::format("{}/c", tree.extras.step), step_value(tree));
  writer.add_inline(fmt::format("{}/{}", tree.extras.step, kArrayFile), zarr::write_array(array));
}

// Writes every key in byte order, making the chunk keys of one leaf at a time. Keys of the arrays
// `a` and `a/b` can mix.
class IndexWriter {
 public:
  IndexWriter(const TreeSpec& tree, const Placements& placed, ocdbt::TreeLimits limits,
              const ByteSink& sink)
      : tree_(tree),
        placed_(placed),
        writer_(
            std::string(kNodeFile), [&](std::uint32_t file) { return placed_.file_path(file); },
            sink, limits),
        order_(tree.leaves->size()),
        step_due_(!tree.extras.step.empty()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::sort(order_, [&](std::size_t a, std::size_t b) {
      const std::string& left = (*tree_.leaves)[a].name;
      const std::string& right = (*tree_.leaves)[b].name;
      // An empty name is a prefix of all others, without a slash.
      if (left.empty() || right.empty()) return left.empty() && !right.empty();
      return array_before(left, right);
    });
  }

  ocdbt::Version write() {
    while (next_ < order_.size()) add_next(0);
    add_step_before({});
    return writer_.finish();
  }

 private:
  // Returns the prefix of all keys of a leaf.
  std::string prefix_of(std::size_t leaf) const { return array_prefix((*tree_.leaves)[leaf].name); }

  // An empty name means the end.
  void add_step_before(std::string_view name) {
    if (!step_due_ || (!name.empty() && !array_before(tree_.extras.step, name))) return;
    add_step(tree_, writer_);
    step_due_ = false;
  }

  // Adds the next leaf, and among its keys all leaves whose names begin with its own and a slash.
  void add_next(std::size_t depth) {
    const std::size_t index = order_[next_++];
    const Leaf& leaf = (*tree_.leaves)[index];
    if (depth > kMostNested) throw nested_too_deep(leaf);
    const zarr::Array array = array_of(tree_, index);
    const std::string prefix = prefix_of(index);
    add_step_before(leaf.name);
    const auto number = static_cast<std::uint32_t>(index);
    for_each_chunk_by_key(chunk_counts(array.shape, array.chunk), [&](const Shape& chunk) {
      const std::string key = prefix + zarr::chunk_key(array.keys, chunk);
      add_nested(prefix, key, depth);
      writer_.add_range(key, placed_.place(number, chunk));
    });
    const std::string key = prefix + std::string(kArrayFile);
    add_nested(prefix, key, depth);
    writer_.add_inline(key, zarr::write_array(array));
    add_nested(prefix, {}, depth);
  }

  // Adds the leaves below a prefix whose keys come before `key`. If it is empty, adds all of them.
  void add_nested(const std::string& prefix, std::string_view key, std::size_t depth) {
    while (next_ < order_.size() && (*tree_.leaves)[order_[next_]].name.starts_with(prefix)) {
      const std::string below = prefix_of(order_[next_]);
      if (!key.empty() && below > key) return;
      if (key.starts_with(below)) throw same_key((*tree_.leaves)[order_[next_]], key);
      add_next(depth + 1);
    }
  }

  static Error nested_too_deep(const Leaf& leaf) {
    return Error(ErrorCode::unsupported,
                 fmt::format("this name begins with the names of more than {} arrays", kMostNested))
        .in_tensor(leaf.name);
  }
  static Error same_key(const Leaf& leaf, std::string_view key) {
    return Error(ErrorCode::unsupported,
                 fmt::format("a chunk of another array has the key {}, which begins with this name",
                             quote(key)))
        .in_tensor(leaf.name)
        .hint("leave one of the two arrays out with --exclude");
  }

  static constexpr std::size_t kMostNested = 64;
  const TreeSpec& tree_;
  const Placements& placed_;
  ocdbt::TreeWriter writer_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  bool step_due_;
};

std::array<std::byte, 16> database_id(const std::string& plan_id) {
  Sha256 hash;
  const auto digest = hash.update("uuid").update(plan_id).finish();
  std::array<std::byte, 16> out{};
  std::copy_n(digest.begin(), out.size(), out.begin());
  return out;
}

std::string make_manifest(const TreeSpec& tree, ocdbt::Version root) {
  ocdbt::Manifest out;
  out.uuid = database_id(tree.plan_id);
  root.generation = 1;
  root.commit_time_ns = kTimeNs;
  out.files.push_back({root.empty() ? std::string() : std::string(kNodeFile), 0});
  out.versions.push_back(root);
  return ocdbt::encode_manifest(out);
}

// Adds the handlers of copied items. The source step's other items aren't in this one.
void add_handlers(const Json& beside, Json& handlers) {
  const Json* known = beside.find("item_handlers");
  if (known == nullptr || !known->is_object()) return;
  for (const auto& [item, handler] : known->as_object()) handlers[item] = handler;
}

void add_default(std::string_view member, Json value, Json& out) {
  if (out.find(member) == nullptr) out[std::string(member)] = std::move(value);
}

// Keeps the metadata of the source's step and replaces only hfshard's own member.
Json structured_step_metadata(const TreeSpec& tree) {
  Json out = step_of_structure(tree, kHandler);
  add_handlers(tree.beside, out["item_handlers"]);
  const Json* custom = out.find("custom_metadata");
  const bool has_own = custom != nullptr && custom->is_object() && tree.custom_metadata.is_object();
  if (!has_own) out["custom_metadata"] = tree.custom_metadata;
  if (const Json* ours = tree.custom_metadata.find("hfshard"))
    out["custom_metadata"]["hfshard"] = *ours;
  add_default("metrics", Json::Object(), out);
  add_default("performance_metrics", Json::Object(), out);
  add_default("init_timestamp_nsecs", kTimeNs, out);
  add_default("commit_timestamp_nsecs", kTimeNs, out);
  return out;
}

Json step_metadata(const TreeSpec& tree) {
  if (tree.structure != nullptr) return structured_step_metadata(tree);
  Json out;
  if (tree.direct) {
    out["item_handlers"] = kHandler;
  } else {
    add_handlers(tree.beside, out["item_handlers"]);
    out["item_handlers"][tree.item] = kHandler;
  }
  const Json* metrics = tree.beside.find("metrics");
  out["metrics"] = metrics != nullptr ? *metrics : Json(Json::Object());
  out["performance_metrics"] = Json::Object();
  out["init_timestamp_nsecs"] = kTimeNs;
  out["commit_timestamp_nsecs"] = kTimeNs;
  out["custom_metadata"] =
      tree.custom_metadata.is_null() ? Json(Json::Object()) : tree.custom_metadata;
  return out;
}

// Returns what the tree's file says. Orbax takes any JSON value there. One that isn't an object has
// no place for hfshard's member, which then is only in the step's file.
const Json& tree_custom_metadata(const TreeSpec& tree) {
  const auto& structure = tree.structure;
  const bool is_other = structure != nullptr && !structure->attributes.is_null() &&
                        !structure->attributes.is_object();
  return is_other ? structure->attributes : tree.custom_metadata;
}

void check_tree(const TreeSpec& tree) {
  HFSHARD_CHECK(tree.leaves != nullptr && tree.grids != nullptr);
  HFSHARD_CHECK(tree.leaves->size() == tree.grids->size());
  for (std::size_t i = 0; i < tree.leaves->size(); ++i) {
    const Leaf& leaf = (*tree.leaves)[i];
    HFSHARD_CHECK(tree.structure != nullptr ||
                  (leaf.name.find('/') == std::string::npos && !leaf.name.empty()));
    const std::string top = first_key(leaf.name);
    if (!top.empty() && (top == tree.extras.step || top == tree.extras.empty)) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the training state already has the name {}", quote(top)))
          .in_tensor(leaf.name);
    }
    array_of(tree, i);
  }
}

std::string tree_entry(const std::vector<std::string>& keys, std::string_view value_type,
                       bool empty_node) {
  Json::Array path;
  for (const std::string& key : keys) {
    Json element;
    element["key"] = key;
    element["key_type"] = 2;  // dictionary key
    path.push_back(std::move(element));
  }
  Json entry;
  entry["key_metadata"] = std::move(path);
  entry["value_metadata"]["skip_deserialize"] = empty_node;
  entry["value_metadata"]["value_type"] = value_type;
  return dump_json(Json(tuple_text(keys))) + ":" + dump_json(entry);
}

// Returns Python's repr() of a str. Non-ASCII text stays, as printable characters do in Python.
std::string repr(std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char mark = double_quotes ? '"' : '\'';
  std::string out(1, mark);
  for (const char c : text) {
    if (c == mark || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + mark;
}

SideFile constant(std::string path, std::string text) {
  return {std::move(path),
          [text = std::move(text)](const ByteSink& sink) { sink(as_bytes(text)); }};
}

}  // namespace

bool is_manifest_of(const StorePath& item, const std::string& plan_id) {
  const StorePath path = item / kManifestFile;
  if (!path.exists()) return false;
  const std::string bytes = path.read();
  try {
    return ocdbt::decode_manifest(as_bytes(bytes), {path.text(), 0, bytes.size()}).uuid ==
           database_id(plan_id);
  } catch (const Error&) {  // damaged, or hfshard doesn't write such
    return false;
  }
}

std::string tuple_text(const std::vector<std::string>& keys) {
  std::string out = "(";
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) out += ", ";
    out += repr(keys[i]);
  }
  return out + (keys.size() == 1 ? ",)" : ")");
}

void write_tree_metadata(const TreeSpec& tree, const ByteSink& sink) {
  Buffered out(sink);
  out.put("{\"tree_metadata\":{");
  bool first = true;
  const auto put = [&](const std::string& entry) {
    if (!first) out.put(",");
    first = false;
    out.put(entry);
  };
  if (tree.structure != nullptr) put_entries(tree, put);
  // The order in which Orbax flattens Flax's TrainState: step, params, opt_state.
  if (!tree.extras.step.empty()) put(tree_entry({tree.extras.step}, "scalar", false));
  for (const Leaf& leaf : *tree.leaves) {
    if (tree.structure == nullptr) put(tree_entry(split(leaf.name, '.'), "np.ndarray", false));
  }
  if (!tree.extras.empty.empty()) put(tree_entry({tree.extras.empty}, "Dict", true));
  out.put("},\"use_ocdbt\":true,\"use_zarr3\":true,\"store_array_data_equal_to_fill_value\":true");
  out.put(",\"custom_metadata\":" + dump_json(tree_custom_metadata(tree)));
  if (tree.structure != nullptr && !tree.structure->rich_types.empty())
    out.put(",\"value_metadata_tree\":" + dump_json(Json(tree.structure->rich_types)));
  out.put("}");
  out.flush();
}

std::vector<SideFile> side_files(const TreeSpec& tree, const Placements& placed,
                                 ocdbt::TreeLimits limits) {
  check_tree(tree);
  // The manifest needs the place of the root node. It comes from writing the index, or from a dry
  // run.
  const auto root = std::make_shared<std::optional<ocdbt::Version>>();
  const auto write_nodes = [tree, &placed, limits, root](const ByteSink& sink) {
    *root = IndexWriter(tree, placed, limits, sink).write();
  };
  const std::string item = tree.direct ? std::string() : tree.item + "/";
  const std::string done = "Checkpoint commit was successful\n";
  std::vector<SideFile> out;
  out.push_back({item + std::string(kNodeFile), write_nodes});
  out.push_back({item + std::string(kManifestFile), [=](const ByteSink& sink) {
                   if (!*root) write_nodes([](std::span<const std::byte>) {});
                   sink(as_bytes(make_manifest(tree, **root)));
                 }});
  out.push_back({item + std::string(kTreeFile),
                 [tree](const ByteSink& sink) { write_tree_metadata(tree, sink); }});
  if (tree.structure != nullptr) {
    for (SideFile& file : structure_files(tree, item)) out.push_back(std::move(file));
  }
  if (!tree.direct) out.push_back(constant(item + std::string(kCommitFile), done));
  out.push_back(constant(std::string(kStepFile), dump_json(step_metadata(tree))));
  out.push_back(constant(std::string(kCommitFile), done));
  return out;
}

}  // namespace hfshard::format::orbax
