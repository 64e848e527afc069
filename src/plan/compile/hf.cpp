#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "mapping/find.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// What the family of a quantised source decodes. Without a family that is known there is none.
class FamilyDecoders {
 public:
  explicit FamilyDecoders(const Catalog& catalog) {
    if (catalog.config_text.empty()) return;
    config_ = parse_json(catalog.config_text, config_path(catalog.location));
    const FamilyFile* family = find_family(config_);
    if (family == nullptr) return;
    table_.emplace(load_table(*family));
    bindings_.emplace(*table_, config_, none_,
                      [&catalog](std::string_view name) { return catalog.find(name).has_value(); });
  }
  FamilyDecoders(const FamilyDecoders&) = delete;
  FamilyDecoders& operator=(const FamilyDecoders&) = delete;

  // Nothing for tensors that hold values.
  const DecodeRule* find(const TensorInfo& tensor) const {
    return table_ ? find_decode(*table_, *bindings_, tensor) : nullptr;
  }
  Decode compile(const DecodeRule& rule, std::uint32_t tensor, ModelBuilder& builder) const {
    return compile_decode(rule, *bindings_, {tensor}, builder.catalog().tensors[tensor].shape,
                          builder);
  }
  const Json& config() const { return config_; }

 private:
  Json config_;
  Bindings::Options none_;
  std::optional<MappingTable> table_;
  std::optional<Bindings> bindings_;
};

void check_cast(const TensorInfo& tensor, DType dtype) {
  if (can_apply_value({}, tensor.dtype, dtype)) return;
  throw Error(ErrorCode::unsupported, fmt::format("a cast from {} to {} is not possible",
                                                  to_string(tensor.dtype), to_string(dtype)))
      .in_tensor(tensor.name)
      .hint("casts work on f16, bf16 and f32; leave it out with --exclude");
}

// What transformers calls a dtype, where it can be asked for.
std::string_view config_name(DType dtype) {
  if (dtype == DType::f32) return "float32";
  return dtype == DType::f16 ? "float16" : "bfloat16";
}

// A config.json of the tensors as they are written: without the quantisation that is undone, with
// the dtype that was asked for where one is named.
void restate(Json& config, const std::optional<DType>& dtype, bool decoded) {
  Json::Object& members = config.object();
  if (decoded) members.erase("quantization_config");
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    const auto named = members.find(std::string(key));
    if (dtype && named != members.end()) named->second = config_name(*dtype);
  }
  const auto text = members.find("text_config");
  if (text != members.end() && text->second.is_object()) restate(text->second, dtype, decoded);
}

// What becomes of the codes of a source.
struct DecodedTensors {
  std::map<std::uint32_t, Decode> decodes;  // by tensor; the others hold values
  bool any = false;
  bool codes_left = false;
};

// Decodes what --dtype or --cast wants as values. Packed codes stay: their values would be tensors
// of another name and shape.
DecodedTensors decode_tensors(const FamilyDecoders& decoders, ModelBuilder& builder) {
  const std::vector<TensorInfo>& tensors = builder.catalog().tensors;
  DecodedTensors out;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const DecodeRule* rule = builder.excluded(i) ? nullptr : decoders.find(tensors[i]);
    if (rule == nullptr) continue;
    const bool plain = rule->kind == DecodeKind::block || rule->kind == DecodeKind::tensor;
    const DType dtype = leaf_dtype(builder.options(), tensors[i].name, tensors[i].dtype, {});
    if (plain && dtype != tensors[i].dtype) {
      out.decodes.emplace(i, decoders.compile(*rule, i, builder));
      out.any = true;
    } else {
      out.codes_left = true;
    }
  }
  const bool wanted = builder.options().dtype.has_value();
  if (out.codes_left && wanted)
    builder.model().notes.emplace_back("packed codes stay as they are stored, whatever --dtype is");
  return out;
}

}  // namespace

void compile_hf(ModelBuilder& builder) {
  CompiledModel& model = builder.model();
  const std::uint32_t rule = builder.rule("--scheme hf");
  const Catalog& catalog = builder.catalog();
  const FamilyDecoders decoders(catalog);
  const DecodedTensors decoded = decode_tensors(decoders, builder);
  model.leaves.reserve(catalog.tensors.size());
  model.transfers.reserve(catalog.tensors.size());
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    // What is used by now are the scales of what is decoded.
    if (builder.use(i) != TensorUse::none) continue;
    const TensorInfo& tensor = catalog.tensors[i];
    Leaf leaf;
    leaf.name = tensor.name;
    if (!builder.options().flat_names) check_path(tensor.name);
    leaf.dtype = leaf_dtype(builder.options(), tensor.name, tensor.dtype, {});
    const auto decode = decoded.decodes.find(i);
    if (decode == decoded.decodes.end()) check_cast(tensor, leaf.dtype);
    leaf.shape = tensor.shape;
    Transfer transfer;
    transfer.target = static_cast<std::uint32_t>(model.leaves.size());
    transfer.rule = rule;
    transfer.sources = {i};
    transfer.source_shape = tensor.shape;
    transfer.source_dtype = tensor.dtype;
    transfer.map = identity_map(tensor.shape);
    if (decode != decoded.decodes.end())
      transfer.decode = std::make_shared<const Decode>(decode->second);
    model.leaves.push_back(std::move(leaf));
    model.transfers.push_back(std::move(transfer));
    builder.mark(i, TensorUse::mapped);
  }
  if (!decoders.config().is_object()) return;
  Json config = decoders.config();
  restate(config, builder.options().dtype, decoded.any && !decoded.codes_left);
  if (!(config == decoders.config())) model.config_text = dump_json_pretty(config);
}

}  // namespace hfshard
