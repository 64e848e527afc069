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
#include "format/orbax/key_order.h"
#include "format/orbax/ocdbt/manifest.h"
#include "format/orbax/zarr/array.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

// Output is deterministic: every time in it is this one.
constexpr std::uint64_t kTimeNs = 1700000000000000000;
constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
constexpr std::string_view kHandler =
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler";

// Hands text on in pieces of some size.
class Buffered {
 public:
  explicit Buffered(const ByteSink& sink) : sink_(&sink) {}
  void put(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void flush() {
    if (!buffer_.empty()) (*sink_)(as_bytes(buffer_));
    buffer_.clear();
  }

 private:
  const ByteSink* sink_;
  std::string buffer_;
};

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

void add_leaf(const TreeSpec& tree, const Placements& placed, std::size_t index,
              ocdbt::TreeWriter& writer) {
  const zarr::Array array = array_of(tree, index);
  const std::string prefix = (*tree.leaves)[index].name + "/";
  const auto number = static_cast<std::uint32_t>(index);
  for_each_chunk_by_key(chunk_counts(array.shape, array.chunk), [&](const Shape& chunk) {
    writer.add_range(prefix + zarr::chunk_key(array.keys, chunk), placed.place(number, chunk));
  });
  writer.add_inline(prefix + std::string(kArrayFile), zarr::write_array(array));
}

// Feeds every key in byte order; the chunk keys of one leaf are made on the way.
ocdbt::Version write_index(const TreeSpec& tree, const Placements& placed, ocdbt::TreeLimits limits,
                           const ByteSink& sink) {
  const std::vector<Leaf>& leaves = *tree.leaves;
  std::vector<std::size_t> order(leaves.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return array_before(leaves[a].name, leaves[b].name);
  });
  ocdbt::TreeWriter writer(
      std::string(kNodeFile), [&](std::uint32_t file) { return placed.file_path(file); }, sink,
      limits);
  bool step_due = !tree.extras.step.empty();
  for (const std::size_t index : order) {
    if (step_due && array_before(tree.extras.step, leaves[index].name)) {
      add_step(tree, writer);
      step_due = false;
    }
    add_leaf(tree, placed, index, writer);
  }
  if (step_due) add_step(tree, writer);
  return writer.finish();
}

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

// Of the items beside the tree; the others of that step are not there any more.
void add_handlers(const Json& beside, Json& handlers) {
  const Json* known = beside.find("item_handlers");
  if (known == nullptr || !known->is_object()) return;
  for (const auto& [item, handler] : known->as_object()) handlers[item] = handler;
}

Json step_metadata(const TreeSpec& tree) {
  Json out;
  if (tree.direct) {
    out["item_handlers"] = kHandler;
  } else {
    add_handlers(tree.beside, out["item_handlers"]);
    out["item_handlers"][kItemDirectory] = kHandler;
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

void check_tree(const TreeSpec& tree) {
  HFSHARD_CHECK(tree.leaves != nullptr && tree.grids != nullptr);
  HFSHARD_CHECK(tree.leaves->size() == tree.grids->size());
  for (std::size_t i = 0; i < tree.leaves->size(); ++i) {
    const Leaf& leaf = (*tree.leaves)[i];
    HFSHARD_CHECK(leaf.name.find('/') == std::string::npos && !leaf.name.empty());
    const std::string top = leaf.name.substr(0, leaf.name.find('.'));
    if (!top.empty() && (top == tree.extras.step || top == tree.extras.empty)) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the name {} is taken by the training state", quote(top)))
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

// Python's repr() of a str; non-ASCII text stays as it is, as for printable characters in Python.
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
  } catch (const Error&) {  // damaged, or of a kind that we do not write: nobody's of ours
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
  // The order in which Orbax flattens Flax's TrainState: step, params, opt_state.
  if (!tree.extras.step.empty()) put(tree_entry({tree.extras.step}, "scalar", false));
  for (const Leaf& leaf : *tree.leaves) put(tree_entry(split(leaf.name, '.'), "np.ndarray", false));
  if (!tree.extras.empty.empty()) put(tree_entry({tree.extras.empty}, "Dict", true));
  out.put("},\"use_ocdbt\":true,\"use_zarr3\":true,\"store_array_data_equal_to_fill_value\":true");
  out.put(",\"custom_metadata\":" + dump_json(tree.custom_metadata) + "}");
  out.flush();
}

std::vector<SideFile> side_files(const TreeSpec& tree, const Placements& placed,
                                 ocdbt::TreeLimits limits) {
  check_tree(tree);
  // The manifest needs to know where the root node is: from the writing of the index, or from a dry
  // run of it.
  const auto root = std::make_shared<std::optional<ocdbt::Version>>();
  const auto write_nodes = [tree, &placed, limits, root](const ByteSink& sink) {
    *root = write_index(tree, placed, limits, sink);
  };
  const std::string item = tree.direct ? std::string() : std::string(kItemDirectory) + "/";
  const std::string done = "Checkpoint commit was successful\n";
  std::vector<SideFile> out;
  out.push_back({item + std::string(kNodeFile), write_nodes});
  out.push_back({item + std::string(kManifestFile), [=](const ByteSink& sink) {
                   if (!*root) write_nodes([](std::span<const std::byte>) {});
                   sink(as_bytes(make_manifest(tree, **root)));
                 }});
  out.push_back({item + std::string(kTreeFile),
                 [tree](const ByteSink& sink) { write_tree_metadata(tree, sink); }});
  if (!tree.direct) out.push_back(constant(item + std::string(kCommitFile), done));
  out.push_back(constant(std::string(kStepFile), dump_json(step_metadata(tree))));
  out.push_back(constant(std::string(kCommitFile), done));
  return out;
}

}  // namespace hfshard::format::orbax
