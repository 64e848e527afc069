#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/find.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// What a family decodes of a source; nothing where no family is known.
struct Decoders {
  const MappingTable* table = nullptr;
  const Bindings* bindings = nullptr;
  bool always = false;  // not only what --dtype or --cast want as values

  // Nothing for tensors that hold values.
  const DecodeRule* find(const TensorInfo& tensor) const {
    return table != nullptr ? find_decode(*table, *bindings, tensor) : nullptr;
  }
};

// Those of the family that the config of a source names, if it is known.
class FamilyDecoders {
 public:
  explicit FamilyDecoders(const Catalog& catalog) {
    if (catalog.config_text.empty()) return;
    config_ = parse_json(catalog.config_text, config_path(catalog.location));
    const FamilyFile* family = find_family(config_);
    if (family == nullptr) return;
    table_.emplace(load_table(*family));
    bindings_.emplace(*table_, config_, none_, shapes_of(catalog));
  }
  FamilyDecoders(const FamilyDecoders&) = delete;
  FamilyDecoders& operator=(const FamilyDecoders&) = delete;

  Decoders get() const {
    if (!table_) return {};
    return {&*table_, &*bindings_};
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

// A tensor of codes as what it decodes to.
struct DecodedTensor {
  std::string name;
  Shape view;   // of the codes
  Shape shape;  // of the values
  IndexMap map;
  bool packed = false;
};

bool take_suffix(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.erase(name.size() - suffix.size());
  return true;
}

// Name and shape that the values have in a checkpoint without codes; nothing if that is not known.
// Of MXFP4 the experts are transposed: [E, R, G, B/2] of bytes become [E, G*B, R]. Sources:
// huggingface/transformers src/transformers/integrations/mxfp4.py convert_moe_packed_tensors,
// dequantize; vllm-project/compressed-tensors
// src/compressed_tensors/compressors/quantized_compressors/pack_quantized.py (weight_packed).
std::optional<DecodedTensor> decoded_tensor(const DecodeRule& rule, const TensorInfo& tensor) {
  DecodedTensor out{tensor.name, tensor.shape, tensor.shape, identity_map(tensor.shape),
                    is_packed(rule.kind)};
  if (!out.packed) return out;
  const std::size_t rank = tensor.shape.rank();
  if (rank < 2) return std::nullopt;
  const std::uint64_t last = tensor.shape[rank - 1] * (size_bits(tensor.dtype) / 4);
  const bool experts = rule.kind == DecodeKind::mx && take_suffix(out.name, "_blocks");
  if (rule.kind == DecodeKind::int4 && !take_suffix(out.name, "_packed")) return std::nullopt;
  if (!experts) {
    out.view[rank - 1] = last;
    out.shape = out.view;
    out.map = identity_map(out.view);
    return out;
  }
  if (rank != 4) return std::nullopt;
  const std::uint64_t rows = tensor.shape[1];
  const std::uint64_t cols = tensor.shape[2] * last;
  out.view = {tensor.shape[0], rows, cols};
  out.shape = {tensor.shape[0], cols, rows};
  const auto step = [](std::uint64_t elements) { return static_cast<std::int64_t>(elements); };
  out.map = {};
  out.map.digits.push_back({tensor.shape[0], step(rows * cols), step(rows * cols)});
  out.map.digits.push_back({cols, 1, step(rows)});
  out.map.digits.push_back({rows, step(cols), 1});
  return out;
}

// What packed integers have beside their scales. Source: as decoded_tensor.
void take_beside(const TensorInfo& tensor, const Decode& decode, ModelBuilder& builder) {
  std::string stem = tensor.name;
  if (!take_suffix(stem, "_packed")) return;
  const Catalog& catalog = builder.catalog();
  for (const std::string_view other : {"_zero_point", "_g_idx"}) {
    if (!catalog.find(stem + std::string(other))) continue;
    throw Error(ErrorCode::unsupported, "packed integers with zero points or an order of their own")
        .in_tensor(stem + std::string(other))
        .hint("without --dtype the codes stay as they are stored");
  }
  // Else the last codes of a row may be padding.
  if (decode.form.col_block % 8 != 0 || decode.form.cols % decode.form.col_block != 0) {
    throw Error(ErrorCode::unsupported, fmt::format("{} columns of packed integers in groups of {}",
                                                    decode.form.cols, decode.form.col_block))
        .in_tensor(tensor.name);
  }
  const auto shape = catalog.find(stem + "_shape");
  if (!shape || builder.use(*shape) != TensorUse::none) return;
  builder.drop_whole(*shape, builder.rule("--scheme hf"),
                     "the tensor that is decoded has its shape");
  builder.mark(*shape, TensorUse::dropped);
}

// What becomes of the codes of the tensors that no rule has used.
class DecodedTensors {
 public:
  struct Item {
    DecodedTensor form;
    Decode decode;
  };
  DecodedTensors(const Decoders& decoders, ModelBuilder& builder)
      : decoders_(decoders), builder_(builder) {
    const std::vector<TensorInfo>& tensors = builder.catalog().tensors;
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (builder.use(i) != TensorUse::none) continue;
      if (const DecodeRule* rule = decoders.find(tensors[i])) add(*rule, i);
    }
    if (!codes_left_ || !builder.options().dtype) return;
    builder.model().notes.emplace_back("some codes stay as they are stored, whatever --dtype is");
  }

  // By tensor; the others hold values.
  const std::map<std::uint32_t, Item>& items() const { return items_; }
  bool codes_left() const { return codes_left_; }

 private:
  // Decodes what is wanted as values.
  void add(const DecodeRule& rule, std::uint32_t number) {
    const TensorInfo& tensor = builder_.catalog().tensors[number];
    auto form = decoded_tensor(rule, tensor);
    if (!form || !is_wanted(form->name, tensor)) {
      codes_left_ = true;
      return;
    }
    if (form->name != tensor.name && builder_.catalog().find(form->name)) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the tensor that {} decodes to is there too", quote(tensor.name)))
          .in_tensor(form->name)
          .hint("leave one of them out with --exclude");
    }
    Decode decode = compile_decode(rule, *decoders_.bindings, {number}, form->view, builder_);
    take_beside(tensor, decode, builder_);
    items_.emplace(number, Item{*std::move(form), std::move(decode)});
  }

  bool is_wanted(const std::string& name, const TensorInfo& tensor) const {
    const MappingOptions& options = builder_.options();
    const std::string path = builder_.leaf_name(name);
    const bool cast = std::ranges::any_of(
        options.casts, [&](const Cast& item) { return glob_match(item.glob, path); });
    if (cast) return true;
    if (decoders_.always) {
      if (!options.keep_dtype) return true;
      throw Error(ErrorCode::unsupported, "the tensor is quantised, and modules hold values")
          .in_tensor(tensor.name)
          .hint("--dtype bf16 or --dtype f32 decodes it");
    }
    return options.dtype && *options.dtype != tensor.dtype;
  }

  Decoders decoders_;
  ModelBuilder& builder_;
  std::map<std::uint32_t, Item> items_;
  bool codes_left_ = false;
};

// One transfer per tensor that is not used yet; `config`: what the source says of its model.
void take_tensors(const Decoders& decoders, const Json& config, std::uint32_t rule,
                  ModelBuilder& builder) {
  CompiledModel& model = builder.model();
  const Catalog& catalog = builder.catalog();
  const DecodedTensors decoded(decoders, builder);
  model.leaves.reserve(catalog.tensors.size());
  model.transfers.reserve(catalog.tensors.size());
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    // What is used by now are the scales of what is decoded, and what rules have taken.
    if (builder.use(i) != TensorUse::none) continue;
    const TensorInfo& tensor = catalog.tensors[i];
    const auto found = decoded.items().find(i);
    const DecodedTensors::Item* item = found == decoded.items().end() ? nullptr : &found->second;
    Leaf leaf;
    leaf.name = builder.leaf_name(item != nullptr ? item->form.name : tensor.name);
    if (!builder.options().flat_names) check_path(leaf.name);
    const bool packed = item != nullptr && item->form.packed;
    leaf.dtype =
        leaf_dtype(builder.options(), leaf.name, item != nullptr ? DType::bf16 : tensor.dtype, {});
    leaf.shape = item != nullptr ? item->form.shape : tensor.shape;
    Transfer transfer;
    transfer.target = static_cast<std::uint32_t>(model.leaves.size());
    transfer.rule = rule;
    transfer.sources = {i};
    transfer.source_shape = tensor.shape;
    transfer.source_dtype = packed ? DType::f4 : tensor.dtype;
    transfer.map = identity_map(tensor.shape);
    if (item != nullptr) {
      transfer.source_shape = item->form.view;
      transfer.map = item->form.map;
      transfer.decode = std::make_shared<const Decode>(item->decode);
    } else {
      check_cast(tensor, leaf.dtype);
    }
    model.leaves.push_back(std::move(leaf));
    model.transfers.push_back(std::move(transfer));
    builder.mark(i, TensorUse::mapped);
  }
  if (!config.is_object()) return;
  const bool any = std::ranges::any_of(
      model.transfers, [](const Transfer& transfer) { return transfer.decode != nullptr; });
  Json stated = config;
  restate(stated, builder.options().dtype, any && !decoded.codes_left());
  if (!(stated == config)) model.config_text = dump_json_pretty(stated);
}

}  // namespace

void compile_hf(ModelBuilder& builder) {
  const FamilyDecoders family(builder.catalog());
  take_tensors(family.get(), family.config(), builder.rule("--scheme hf"), builder);
}

void compile_rest(const MappingTable& table, const Bindings& bindings, const Json& config,
                  ModelBuilder& builder) {
  const std::string dialect = "--dialect " + builder.options().dialect;
  for (const Transfer& transfer : builder.model().transfers) {
    if (!transfer.decode) continue;
    for (const std::uint32_t source : transfer.sources)
      take_beside(builder.catalog().tensors[source], *transfer.decode, builder);
  }
  take_tensors({&table, &bindings, true}, config, builder.rule(dialect), builder);
}

}  // namespace hfshard
