#include "plan/options_json.h"

#include <optional>

#include "hfshard/error.h"
#include "hfshard/mapping.h"

namespace hfshard {
namespace {

Json strings(const std::vector<std::string>& items) {
  Json out{Json::Array{}};
  for (const std::string& item : items) out.array().emplace_back(item);
  return out;
}

std::vector<std::string> strings_of(const Json& json) {
  std::vector<std::string> out;
  for (const Json& item : json.as_array()) out.push_back(item.as_string());
  return out;
}

// What a source that is a tree of arrays is asked for.
void add_tree(const TreeOptions& tree, Json& out) {
  if (tree.same) out["same"] = true;
  if (!tree.axes.empty()) out["axes"] = strings(tree.axes);
  if (tree.config_text) out["config"] = *tree.config_text;
  if (tree.step) out["source_step"] = *tree.step;
  if (!tree.root.empty()) out["root"] = tree.root;
  if (!tree.items.empty()) out["source_tree"] = tree.items;
  if (tree.all_items) out["beside"] = true;
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
  out["mesh"] = strings(options.meshes);
  out["chunk_bytes"] = options.chunk_bytes;
  if (options.shard_bytes != PlanOptions().shard_bytes) out["shard_bytes"] = options.shard_bytes;
  out["step"] = options.step;
  out["checksum"] = options.encoding.checksum ? "crc32c" : "none";
  if (options.encoding.zstd_level != 0) out["zstd"] = std::uint64_t(options.encoding.zstd_level);
  if (options.link) {
    out["link"] = options.in_place ? "in-place" : "files";
    out["digests"] = options.digests;
  }
  out["include"] = strings(options.mapping.include);
  out["exclude"] = strings(options.mapping.exclude);
  if (!options.files.take.empty()) out["take_files"] = strings(options.files.take);
  if (!options.files.leave.empty()) out["leave_files"] = strings(options.files.leave);
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
  if (const Json* files = json.find("take_files")) out.files.take = strings_of(*files);
  if (const Json* files = json.find("leave_files")) out.files.leave = strings_of(*files);
  for (const auto& [name, value] : json.at("option").as_object()) {
    out.mapping.options[name] = value.as_string();
  }
  const std::string& dtype = json.at("dtype").as_string();
  out.mapping.dtype = dtype_from_string(dtype);
  out.mapping.keep_dtype = dtype == "keep";
  for (const std::string& text : strings_of(json.at("cast"))) {
    const std::optional<Cast> cast = parse_cast(text);
    if (!cast) throw Error(ErrorCode::corrupt, "a recorded cast is not GLOB=DTYPE");
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
  out.tree.same = json.find("same") != nullptr;
  if (const Json* axes = json.find("axes")) out.tree.axes = strings_of(*axes);
  if (const Json* config = json.find("config")) {
    out.tree.config_text = config->as_string();
    out.tree.config_name = "recorded config";
  }
  if (const Json* step = json.find("source_step")) out.tree.step = step->as_uint();
  if (const Json* root = json.find("root")) out.tree.root = root->as_string();
  if (const Json* tree = json.find("source_tree")) out.tree.items = tree->as_string();
  out.tree.all_items = json.find("beside") != nullptr;
  return out;
}

}  // namespace hfshard
