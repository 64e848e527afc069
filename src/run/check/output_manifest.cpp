#include "run/check/output_manifest.h"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/json.h"
#include "base/json_shape.h"
#include "base/version.h"
#include "bytes/local/files.h"
#include "ops/index_map.h"
#include "plan/layout/band.h"
#include "run/check/manifest_decode.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMaxManifest = std::uint64_t{1} << 31;
constexpr std::string_view kDataFiles = "data_files";
constexpr std::string_view kFiles = "files";
constexpr std::string_view kSideFiles = "side_files";
constexpr std::string_view kRootFiles = "root_files";
// Comes last, and stands in a list as all that follows the first line.
constexpr std::string_view kOwnDigest = "record_sha256";

Shape shape_of(const Json& json) {
  Shape shape;
  for (const Json& extent : json.as_array()) shape.push_back(extent.as_uint());
  return shape;
}

Json json_map(const IndexMap& map) {
  Json out;
  out["src"] = map.src_base;
  out["dst"] = map.dst_base;
  out["digits"] = Json::Array{};
  for (const Digit& digit : map.digits) {
    out["digits"].array().emplace_back(
        Json::Array{Json(digit.extent), Json(digit.src_step), Json(digit.dst_step)});
  }
  return out;
}

IndexMap map_of(const Json& json) {
  IndexMap map;
  map.src_base = json.at("src").as_uint();
  map.dst_base = json.at("dst").as_uint();
  for (const Json& digit : json.at("digits").as_array()) {
    const Json::Array& parts = digit.as_array();
    if (parts.size() != 3) throw Error(ErrorCode::corrupt, "a digit has three numbers");
    map.digits.push_back({parts[0].as_uint(), parts[1].as_int(), parts[2].as_int()});
  }
  return map;
}

Json json_array(const Array& array) {
  Json out;
  out["name"] = array.name;
  out["dtype"] = to_string(array.dtype);
  out["shape"] = shape_json(array.shape);
  return out;
}

Json json_leaf(const Leaf& leaf, const Grid& grid) {
  Json out;
  out["path"] = leaf.name;
  out["dtype"] = to_string(leaf.dtype);
  out["shape"] = shape_json(leaf.shape);
  out["shard"] = shape_json(grid.shard);
  out["chunk"] = shape_json(grid.chunk);
  if (grid.has_inner()) out["inner"] = shape_json(grid.inner);
  if (grid.linked) out["linked"] = true;
  out["axes"] = Json::Array{};
  out["stacked"] = Json::Array{};
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    out["axes"].array().emplace_back(leaf.axis(d));
    if (leaf.is_stacked(d)) out["stacked"].array().emplace_back(static_cast<std::uint64_t>(d));
  }
  return out;
}

Json json_transfer(const Model& model, std::uint32_t index, const OutputDigests& digests) {
  const Transfer& transfer = model.transfers[index];
  Json out;
  out["leaf"] = std::uint64_t{transfer.target};
  out["rule"] = std::uint64_t{transfer.rule};
  out["map"] = json_map(transfer.map);
  out["loops"] = Json::Array{};
  for (const Loop& loop : transfer.loops) {
    out["loops"].array().emplace_back(Json::Array{Json(loop.extent), Json(loop.dst_step)});
  }
  out["sources"] = Json::Array{};
  out["digests"] = Json::Array{};
  for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
    out["sources"].array().emplace_back(std::uint64_t{transfer.sources[i]});
    if (digests.recorded[index])
      out["digests"].array().emplace_back(to_hex(digests.sums[model.digest_slot(index, i)]));
  }
  if (transfer.value.mul) out["mul"] = double{*transfer.value.mul};
  if (transfer.value.add) out["add"] = double{*transfer.value.add};
  if (transfer.row != 0) out["row"] = std::uint64_t{transfer.row};
  if (transfer.copy) out["copy"] = true;
  if (transfer.decode) out["decode"] = json_decode(*transfer.decode, transfer.source_shape);
  return out;
}

Json json_fill(const Fill& fill) {
  Json out;
  out["leaf"] = std::uint64_t{fill.target};
  out["rule"] = std::uint64_t{fill.rule};
  out["map"] = json_map(fill.map);
  out["value"] = fill.scalar;
  return out;
}

bool is_whole(const Drop& drop, const Shape& shape) {
  return normalize(drop.map) == normalize(identity_map(shape));
}

Json json_drop(const Drop& drop, const Shape& shape) {
  Json out;
  out["source"] = std::uint64_t{drop.source};
  out["rule"] = std::uint64_t{drop.rule};
  out["why"] = drop.why;
  if (drop.same_as) out["same_as"] = std::uint64_t{*drop.same_as};
  if (!is_whole(drop, shape)) out["map"] = json_map(drop.map);
  return out;
}

// Writes `"name":[` and the items, one a line, `]`.
template <typename Item>
void write_list(const ByteSink& sink, std::string_view name, std::size_t count, const Item& item) {
  sink(as_bytes(fmt::format(",\n\"{}\":[", name)));
  for (std::size_t i = 0; i < count; ++i) {
    sink(as_bytes(std::string_view(i == 0 ? "\n" : ",\n")));
    sink(as_bytes(dump_json(item(i))));
  }
  sink(as_bytes("]"));
}

DType dtype_of(const Json& json) {
  const auto dtype = dtype_from_string(json.as_string());
  if (!dtype) throw Error(ErrorCode::corrupt, "unknown dtype " + json.as_string());
  return *dtype;
}

// A manifest while it is read.
struct Parts {
  Catalog catalog;
  CompiledModel compiled;
  std::vector<bool> linked;  // per leaf
  std::vector<Digest128> sums;
  std::vector<bool> recorded;
};

Array read_array(const Json& json) {
  Array out;
  out.name = json.at("name").as_string();
  out.dtype = dtype_of(json.at("dtype"));
  out.shape = shape_of(json.at("shape"));
  return out;
}

// A place in a list of so many items. It is compared as it was read, before it is cut to 32 bits.
std::uint32_t listed(const Json& json, std::size_t items, const char* fault) {
  const std::uint64_t index = json.as_uint();
  if (index >= items) throw Error(ErrorCode::corrupt, fault);
  return static_cast<std::uint32_t>(index);
}

void read_leaf(const Json& json, Parts& parts) {
  Leaf leaf;
  Grid grid;
  leaf.name = json.at("path").as_string();
  leaf.dtype = dtype_of(json.at("dtype"));
  leaf.shape = shape_of(json.at("shape"));
  grid.shard = shape_of(json.at("shard"));
  grid.chunk = shape_of(json.at("chunk"));
  grid.inner = json.find("inner") ? shape_of(json.at("inner")) : grid.chunk;
  grid.linked = json.find("linked") != nullptr;
  for (const Json& axis : json.at("axes").as_array()) leaf.axes.push_back(axis.as_string());
  leaf.stacked.assign(leaf.shape.rank(), false);
  for (const Json& axis : json.at("stacked").as_array()) {
    if (axis.as_uint() >= leaf.stacked.size())
      throw Error(ErrorCode::corrupt, "a leaf is stacked along an axis that it lacks");
    leaf.stacked[axis.as_uint()] = true;
  }
  if (grid.chunk.rank() != leaf.shape.rank() || grid.inner.rank() != leaf.shape.rank()) {
    throw Error(ErrorCode::corrupt, "a chunk's rank differs from its leaf's").in_tensor(leaf.name);
  }
  parts.compiled.leaves.push_back(std::move(leaf));
  parts.linked.push_back(grid.linked);
}

void read_drop(const Json& json, Parts& parts) {
  constexpr const char* kFault = "a drop names a tensor or rule that is not listed";
  const std::size_t tensors = parts.catalog.tensors.size();
  Drop drop;
  drop.source = listed(json.at("source"), tensors, kFault);
  drop.rule = listed(json.at("rule"), parts.compiled.rules.size(), kFault);
  drop.why = json.at("why").as_string();
  if (const Json* same = json.find("same_as")) drop.same_as = listed(*same, tensors, kFault);
  const Json* map = json.find("map");
  drop.map = map ? map_of(*map) : identity_map(parts.catalog.tensors[drop.source].shape);
  parts.compiled.drops.push_back(std::move(drop));
}

void read_transfer(const Json& json, Parts& parts) {
  constexpr const char* kFault = "a rule names a leaf or source that is not listed";
  Transfer transfer;
  transfer.target = listed(json.at("leaf"), parts.compiled.leaves.size(), kFault);
  transfer.rule = listed(json.at("rule"), parts.compiled.rules.size(), kFault);
  transfer.map = map_of(json.at("map"));
  for (const Json& loop : json.at("loops").as_array()) {
    const Json::Array& pair = loop.as_array();
    if (pair.size() != 2) throw Error(ErrorCode::corrupt, "a loop has two numbers");
    transfer.loops.push_back({pair[0].as_uint(), pair[1].as_int()});
  }
  for (const Json& source : json.at("sources").as_array()) {
    transfer.sources.push_back(listed(source, parts.catalog.tensors.size(), kFault));
  }
  const Json::Array& digests = json.at("digests").as_array();
  for (const Json& digest : digests) parts.sums.push_back(digest_from_hex(digest.as_string()));
  if (const Json* mul = json.find("mul")) transfer.value.mul = static_cast<float>(mul->as_double());
  if (const Json* add = json.find("add")) transfer.value.add = static_cast<float>(add->as_double());
  transfer.copy = json.find("copy") != nullptr;
  if (transfer.sources.empty() || (transfer.sources.size() != digests.size() && !digests.empty())) {
    throw Error(ErrorCode::corrupt, "a rule has no sources, or not one digest for each of them");
  }
  if (digests.empty()) {  // linked only
    if (!parts.linked[transfer.target])
      throw Error(ErrorCode::corrupt, "a rule of a leaf that is not linked has no digests");
    parts.sums.resize(parts.sums.size() + transfer.sources.size());
  }
  const TensorInfo& first = parts.catalog.tensors[transfer.sources.front()];
  transfer.source_shape = first.shape;
  transfer.source_dtype = first.dtype;
  if (const Json* decode = json.find("decode")) {
    transfer.source_shape = shape_of(decode->at("shape"));
    transfer.decode =
        std::make_shared<const Decode>(read_decode(*decode, transfer.source_shape, parts.catalog));
    transfer.source_dtype = codes_dtype(transfer.decode->form.code, first.dtype);
  }
  if (const Json* row = json.find("row")) {
    const std::uint64_t length = row->as_uint();
    if (length == 0 || length > UINT32_MAX || row_length(transfer.source_shape) % length != 0)
      throw Error(ErrorCode::corrupt, "the rows of a rule do not divide those of its sources");
    transfer.row = static_cast<std::uint32_t>(length);
  }
  parts.recorded.push_back(!digests.empty());
  parts.compiled.transfers.push_back(std::move(transfer));
}

void read_fill(const Json& json, Parts& parts) {
  Fill fill;
  constexpr const char* kFault = "a fill names a leaf or rule that is not listed";
  fill.target = listed(json.at("leaf"), parts.compiled.leaves.size(), kFault);
  fill.rule = listed(json.at("rule"), parts.compiled.rules.size(), kFault);
  fill.map = map_of(json.at("map"));
  fill.scalar = json.at("value").as_double();
  parts.compiled.fills.push_back(std::move(fill));
}

// How many elements of its leaf a map reaches, which must all lie in the leaf.
std::uint64_t reach_of(const IndexMap& map, const Leaf& leaf) {
  Box whole{leaf.shape, leaf.shape};
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) whole.begin[d] = 0;
  std::vector<IndexMap> pieces;
  restrict_to(map, leaf.shape, whole, pieces);
  return map.count();
}

// The same of a rule, whose map must lie in its sources too.
std::uint64_t reach_of(const Transfer& transfer, const Leaf& leaf) {
  IndexMap all = split_at_rows(transfer);
  for (const Loop& loop : transfer.loops) all.digits.push_back({loop.extent, 0, loop.dst_step});
  const std::uint64_t reach = reach_of(all, leaf);
  if (reach != checked_mul(transfer.map.count(), std::uint64_t{transfer.sources.size()}))
    throw Error(ErrorCode::corrupt, "the loops of a rule do not count its sources");
  return reach;
}

// Checks that rules and fills reach every element of every leaf, as in a plan. Otherwise some
// elements wouldn't be verified.
void check_coverage(const CompiledModel& model) {
  std::vector<std::uint64_t> reached(model.leaves.size(), 0);
  const auto add = [&](std::uint32_t target, const auto& item) {
    const Leaf& leaf = model.leaves[target];
    try {
      reached[target] = checked_add(reached[target], reach_of(item, leaf)).value_or(UINT64_MAX);
    } catch (const Error& error) {  // index maps speak of our own bugs, but this one was read
      throw Error(ErrorCode::corrupt, "the map of a rule or fill fits no leaf: " + error.sentence())
          .in_tensor(leaf.name);
    }
  };
  for (const Transfer& transfer : model.transfers) add(transfer.target, transfer);
  for (const Fill& fill : model.fills) add(fill.target, fill.map);
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (reached[i] == model.leaves[i].shape.numel()) continue;
    throw Error(ErrorCode::corrupt, fmt::format("rules and fills reach {} of {} elements",
                                                reached[i], model.leaves[i].shape.numel()))
        .in_tensor(model.leaves[i].name);
  }
}

Json json_object(const ObjectRecord& object) {
  Json out;
  out["name"] = object.name;
  out["bytes"] = object.size_bytes;
  out["sha256"] = object.sha256;
  return out;
}

void read_body(const Json& json, Manifest& out) {
  Parts parts;
  out.plan_id = json.at("plan_id").as_string();
  out.identity = json.at("identity");
  if (const Json* revision = json.find("revision")) out.revision = revision->as_string();
  if (const Json* nodes = json.find("structure_sha256")) out.structure_sha256 = nodes->as_string();
  out.digests.root = json.at("root_digest").as_string();
  if (const Json* objects = json.find("objects")) {
    for (const Json& object : objects->as_array())
      out.digests.objects.push_back({object.at("name").as_string(), object.at("bytes").as_uint(),
                                     object.at("sha256").as_string()});
  }
  if (const Json* nested = json.find("nested")) out.digests.nested = nested->as_string();
  parts.compiled.family = json.at("family").as_string();
  parts.compiled.scheme = json.at("scheme").as_string();
  parts.compiled.stacked = json.at("layers").as_string() == "stacked";
  out.step = json.at("step").as_uint();
  for (const Json& rule : json.at("rules").as_array())
    parts.compiled.rules.push_back(rule.as_string());
  for (const Json& tensor : json.at("tensors").as_array())
    parts.catalog.tensors.push_back({read_array(tensor)});
  if (const Json* through = json.find("through")) {
    for (const Json& tensor : through->as_array())
      parts.compiled.through.push_back(read_array(tensor));
    if (!std::ranges::is_sorted(parts.compiled.through, {}, &Array::name))
      throw Error(ErrorCode::corrupt, "the tensors that rules lead through are not sorted");
  }
  for (const Json& leaf : json.at("leaves").as_array()) read_leaf(leaf, parts);
  for (const Json& transfer : json.at("transfers").as_array()) read_transfer(transfer, parts);
  for (const Json& fill : json.at("fills").as_array()) read_fill(fill, parts);
  for (const Json& drop : json.at("drops").as_array()) read_drop(drop, parts);
  check_coverage(parts.compiled);
  if (const Json* files = json.find(kDataFiles)) out.files.data = read_files(*files);
  if (const Json* files = json.find(kFiles)) out.files.step = read_files(*files);
  if (const Json* files = json.find(kSideFiles)) out.files.side = read_files(*files);
  if (const Json* files = json.find(kRootFiles)) out.files.root = read_files(*files);
  out.model = make_model(std::move(parts.catalog), std::move(parts.compiled));
  out.digests.sums = std::move(parts.sums);
  out.digests.recorded = std::move(parts.recorded);
}

// As every machine has it: a file of the user's without its folder.
std::string recorded_rule(const std::string& pointer, const std::vector<MappingFile>& own) {
  for (const MappingFile& file : own) {
    if (!file.path.empty() && pointer.starts_with(file.path + "#"))
      return file.name + pointer.substr(file.path.size());
  }
  return pointer;
}

}  // namespace

namespace {

// The first line: all members but the lists.
std::string head_text(const Plan& plan, const OutputDigests& digests) {
  const Model& model = plan.model();
  Json head;
  head["schema"] = kSchema;
  head["tool"] = std::string("hfshard ") + kVersion;
  head["plan_id"] = plan.id();
  head["root_digest"] = digests.root;
  head["family"] = model.family;
  head["scheme"] = model.scheme;
  head["layers"] = model.stacked ? "stacked" : "separate";
  head["step"] = plan.step();
  head["identity"] = plan.identity();
  if (!digests.nested.empty()) head["nested"] = digests.nested;
  if (const std::string revision = model.catalog().directory.revision(); !revision.empty()) {
    head["revision"] = revision;
  }
  if (model.structure != nullptr) head["structure_sha256"] = structure_sha256(*model.structure);
  std::string text = dump_json(head);
  text.pop_back();  // the closing brace: the lists follow
  return text;
}

void write_files(const ByteSink& sink, std::string_view name,
                 const std::vector<FileRecord>& files) {
  if (files.empty()) return;
  write_list(sink, name, files.size(), [&](std::size_t i) { return json_file(files[i]); });
}

}  // namespace

void write_manifest(const Plan& plan, const OutputDigests& digests, const WrittenFiles& files,
                    const ByteSink& out) {
  const Model& model = plan.model();
  Sha256 hash;
  const ByteSink sink = [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    out(bytes);
  };
  sink(as_bytes(head_text(plan, digests)));
  write_files(sink, kDataFiles, files.data);
  write_list(sink, "drops", model.drops.size(), [&](std::size_t i) {
    const Drop& drop = model.drops[i];
    return json_drop(drop, model.catalog().tensors[drop.source].shape);
  });
  write_files(sink, kFiles, files.step);
  write_list(sink, "fills", model.fills.size(),
             [&](std::size_t i) { return json_fill(model.fills[i]); });
  write_list(sink, "leaves", model.leaves.size(),
             [&](std::size_t i) { return json_leaf(model.leaves[i], plan.grids()[i]); });
  if (!digests.objects.empty()) {
    write_list(sink, "objects", digests.objects.size(),
               [&](std::size_t i) { return json_object(digests.objects[i]); });
  }
  write_files(sink, kRootFiles, files.root);
  write_list(sink, "rules", model.rules.size(), [&](std::size_t i) {
    return Json(recorded_rule(model.rules[i], plan.options().mapping.files));
  });
  write_files(sink, kSideFiles, files.side);
  write_list(sink, "tensors", model.catalog().tensors.size(),
             [&](std::size_t i) { return json_array(model.catalog().tensors[i]); });
  if (!model.through.empty()) {
    write_list(sink, "through", model.through.size(),
               [&](std::size_t i) { return json_array(model.through[i]); });
  }
  write_list(sink, "transfers", model.transfers.size(), [&](std::size_t i) {
    return json_transfer(model, static_cast<std::uint32_t>(i), digests);
  });
  const std::string own = to_hex(std::span<const std::byte>(hash.finish()));
  write_list(out, kOwnDigest, 1, [&](std::size_t) { return Json(own); });
  out(as_bytes("}\n"));
}

void copy_manifest(const std::string& path, const ByteSink& sink) {
  const std::string text = read_file(path, kMaxManifest);
  sink(as_bytes(text));
}

Manifest read_manifest(const std::string& path) {
  Manifest out;
  const std::string text = read_file(path, kMaxManifest);
  try {
    const Json json = parse_json(text, path);
    if (json.at("schema").as_uint() != kSchema) {
      throw Error(ErrorCode::unsupported, "the manifest was written by a newer hfshard");
    }
    read_body(json, out);
    if (const Json* own = json.find(kOwnDigest)) {
      const std::string_view digested =
          std::string_view(text).substr(0, text.rfind(fmt::format(",\n\"{}\":", kOwnDigest)));
      out.is_damaged =
          *own != Json(Json::Array{Json(sha256_hex(digested))}) || !text.ends_with("\"]}\n");
    }
  } catch (Error& error) {  // adds the file, which the JSON accessors do not know
    // Contradictions are damage here. The parser reports them as errors of an input.
    if (error.code() == ErrorCode::bad_input)
      throw error.reworded(ErrorCode::corrupt, error.sentence()).in_file(path);
    throw error.in_file(path);
  }
  return out;
}

Manifest read_intact_manifest(const std::string& path) {
  Manifest out = read_manifest(path);
  if (!out.is_damaged) return out;
  throw Error(ErrorCode::corrupt, "the record was changed after hfshard wrote it")
      .in_file(path)
      .hint(
          "copy the checkpoint again, or see hfshard verify for what else differs; without this "
          "file, hfshard reads the checkpoint by its names and --config DIR");
}

}  // namespace hfshard
