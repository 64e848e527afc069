#include "plan/options_json.h"

#include <optional>

#include "base/json_shape.h"

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {
namespace {

std::vector<std::string> strings_of(const Json& json) {
  std::vector<std::string> out;
  for (const Json& item : json.as_array()) out.push_back(item.as_string());
  return out;
}

// Writes the options for a source that is a tree of arrays.
void add_tree(const TreeOptions& tree, Json& out) {
  if (tree.same) out["same"] = true;
  if (!tree.axes.empty()) out["axes"] = texts_json(tree.axes);
  if (tree.config_text) out["config"] = *tree.config_text;
  if (tree.step) out["source_step"] = *tree.step;
  if (!tree.root.empty()) out["root"] = tree.root;
  if (!tree.items.empty()) out["source_tree"] = tree.items;
  if (!tree.item_name.empty()) out["item"] = tree.item_name;
  if (!tree.step_prefix.empty()) out["step_prefix"] = tree.step_prefix;
  if (tree.step_digits > 0) out["step_digits"] = tree.step_digits;
  if (tree.direct) out["direct"] = true;
  if (tree.all_items) out["beside"] = true;
}

TreeOptions tree_from_json(const Json& json) {
  TreeOptions out;
  out.same = json.find("same") != nullptr;
  if (const Json* axes = json.find("axes")) out.axes = strings_of(*axes);
  if (const Json* config = json.find("config")) {
    out.config_text = config->as_string();
    out.config_name = "recorded config";
  }
  if (const Json* step = json.find("source_step")) out.step = step->as_uint();
  if (const Json* root = json.find("root")) out.root = root->as_string();
  if (const Json* tree = json.find("source_tree")) out.items = tree->as_string();
  if (const Json* name = json.find("item")) out.item_name = name->as_string();
  if (const Json* prefix = json.find("step_prefix")) out.step_prefix = prefix->as_string();
  if (const Json* digits = json.find("step_digits"))
    out.step_digits = static_cast<unsigned>(digits->as_uint());
  out.direct = json.find("direct") != nullptr;
  out.all_items = json.find("beside") != nullptr;
  return out;
}

}  // namespace

Json options_json(const PlanOptions& options) {
  Json out;
  out["to"] = options.target;
  out["scheme"] = options.mapping.scheme;
  if (options.mapping.dialect != MappingOptions().dialect) out["dialect"] = options.mapping.dialect;
  out["layers"] = options.mapping.stacked ? "stacked" : "separate";
  if (options.mapping.num_layers) out["num_layers"] = *options.mapping.num_layers;
  if (!options.mapping.prefix.empty()) out["prefix"] = options.mapping.prefix;
  out["mesh"] = texts_json(options.meshes);
  out["chunk_bytes"] = options.chunk_bytes;
  if (options.shard_bytes != PlanOptions().shard_bytes) out["shard_bytes"] = options.shard_bytes;
  out["step"] = options.step.value_or(0);
  out["checksum"] = options.encoding.checksum ? "crc32c" : "none";
  if (options.encoding.zstd_level != 0) out["zstd"] = std::uint64_t(options.encoding.zstd_level);
  if (options.link) {
    out["link"] = options.in_place ? "in-place" : "files";
    out["digests"] = options.digests;
  }
  out["include"] = texts_json(options.mapping.include);
  out["exclude"] = texts_json(options.mapping.exclude);
  if (!options.files.take.empty()) out["take_files"] = texts_json(options.files.take);
  if (!options.files.leave.empty()) out["leave_files"] = texts_json(options.files.leave);
  if (options.files.ignore_index) out["ignore_index"] = true;
  if (!options.mapping.drop.empty()) out["drop"] = texts_json(options.mapping.drop);
  if (options.mapping.untie) out["untie"] = true;
  out["option"].object();
  for (const auto& [name, value] : options.mapping.options) out["option"][name] = value;
  const MappingOptions& mapping = options.mapping;
  out["dtype"] = mapping.dtype ? Json(to_string(*mapping.dtype))
                               : Json(mapping.keep_dtype ? "keep" : "default");
  out["cast"] = Json::Array{};
  for (const Cast& cast : mapping.casts) {
    out["cast"].array().emplace_back(to_string(cast));
  }
  // Without its folder: workers may find it in different places.
  for (const MappingFile& file : mapping.files) {
    Json entry;
    entry["family"] = file.family;
    entry["name"] = file.name;
    entry["text"] = file.text;
    out["mapping"].array().push_back(std::move(entry));
  }
  out["rules"] = options.rules_text ? Json(*options.rules_text) : Json();
  add_tree(options.tree, out);
  return out;
}

PlanOptions options_from_json(const Json& json) {
  PlanOptions out;
  out.target = json.at("to").as_string();
  out.mapping.scheme = json.at("scheme").as_string();
  if (const Json* dialect = json.find("dialect")) out.mapping.dialect = dialect->as_string();
  out.mapping.stacked = json.at("layers").as_string() == "stacked";
  if (const Json* layers = json.find("num_layers")) out.mapping.num_layers = layers->as_uint();
  if (const Json* prefix = json.find("prefix")) out.mapping.prefix = prefix->as_string();
  out.meshes = strings_of(json.at("mesh"));
  out.chunk_bytes = json.at("chunk_bytes").as_uint();
  if (const Json* shard = json.find("shard_bytes")) out.shard_bytes = shard->as_uint();
  out.step = json.at("step").as_uint();
  out.encoding.checksum = json.at("checksum").as_string() == "crc32c";
  if (const Json* level = json.find("zstd"))
    out.encoding.zstd_level = static_cast<int>(level->as_uint());
  out.link = json.find("link") != nullptr;
  out.in_place = out.link && json.at("link").as_string() == "in-place";
  out.digests = !out.link || json.at("digests").as_bool();
  out.mapping.include = strings_of(json.at("include"));
  out.mapping.exclude = strings_of(json.at("exclude"));
  if (const Json* drop = json.find("drop")) out.mapping.drop = strings_of(*drop);
  out.mapping.untie = json.find("untie") != nullptr;
  if (const Json* files = json.find("take_files")) out.files.take = strings_of(*files);
  if (const Json* files = json.find("leave_files")) out.files.leave = strings_of(*files);
  out.files.ignore_index = json.find("ignore_index") != nullptr;
  for (const auto& [name, value] : json.at("option").as_object()) {
    out.mapping.options[name] = value.as_string();
  }
  const std::string& dtype = json.at("dtype").as_string();
  out.mapping.dtype = dtype_from_string(dtype);
  out.mapping.keep_dtype = dtype == "keep";
  for (const std::string& text : strings_of(json.at("cast"))) {
    const std::optional<Cast> cast = parse_cast(text);
    if (!cast) throw Error(ErrorCode::corrupt, "a recorded cast isn't GLOB=DTYPE");
    out.mapping.casts.push_back(*cast);
  }
  if (const Json* files = json.find("mapping")) {
    for (const Json& file : files->as_array()) {
      out.mapping.files.push_back({file.at("family").as_string(), file.at("name").as_string(),
                                   file.at("text").as_string()});
    }
  }
  if (!json.at("rules").is_null()) {
    out.rules_text = json.at("rules").as_string();
    out.rules_name = "recorded rules";
  }
  out.tree = tree_from_json(json);
  return out;
}

}  // namespace hfshard
