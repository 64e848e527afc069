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
#include "mapping/resolve/find.h"
#include "mapping/tables/quantization.h"
#include "plan/compile/codes.h"
#include "plan/compile/kept_codes.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kKeepCodes =
    "leave out --dtype and --cast to keep the codes, or convert the unquantized model";

// The decoders for a source.
struct Decoders {
  const Codes* codes = nullptr;
  const Json* config = nullptr;  // the source's config.json
  bool always = false;           // even if --dtype and --cast don't apply
};

// The decoders of all families, and of the source's family if its config names a known one.
class FamilyDecoders {
 public:
  explicit FamilyDecoders(const Catalog& catalog) {
    const FamilyFile* family = nullptr;
    if (!catalog.config_text.empty()) {
      config_ = parse_json(catalog.config_text, config_path(catalog.location));
      family = find_family(config_);
    }
    if (family != nullptr) table_ = load_table(*family);
    bindings_.emplace(table_, config_, none_, shapes_of(catalog));
    codes_.emplace(table_, *bindings_, catalog);
  }
  FamilyDecoders(const FamilyDecoders&) = delete;
  FamilyDecoders& operator=(const FamilyDecoders&) = delete;

  Decoders get() const { return {&*codes_, &config_}; }

 private:
  Json config_;
  Bindings::Options none_;
  MappingTable table_ = table_of_codes();
  std::optional<Bindings> bindings_;
  std::optional<Codes> codes_;
};

void check_cast(const TensorInfo& tensor, DType dtype, const Catalog& catalog) {
  if (can_apply_value({}, tensor.dtype, dtype)) return;
  if (is_float(tensor.dtype) && size_bits(tensor.dtype) <= 8)
    throw unknown_scales(tensor, catalog).hint(kKeepCodes);
  throw Error(ErrorCode::unsupported,
              fmt::format("hfshard can't cast {} to {}", to_string(tensor.dtype), to_string(dtype)))
      .in_tensor(tensor.name)
      .hint(
          "casts read f16, bf16, f32 and f64, and write f16, bf16 and f32; leave it out with "
          "--exclude");
}

// A tensor of codes, in the form of its values.
struct DecodedTensor {
  std::string name;
  Shape view;   // of the codes
  Shape shape;  // of the values
  IndexMap map;
};

bool take_suffix(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.erase(name.size() - suffix.size());
  return true;
}

// Returns the name and shape of the values in a checkpoint without codes. Empty if that isn't
// known. MXFP4 has transposed experts: [E, R, G, B/2] of bytes become [E, G*B, R]. Sources:
// huggingface/transformers src/transformers/integrations/mxfp4.py convert_moe_packed_tensors,
// dequantize; vllm-project/compressed-tensors
// src/compressed_tensors/compressors/quantized_compressors/pack_quantized.py (weight_packed).
std::optional<DecodedTensor> decoded_tensor(const DecodeRule& rule, const TensorInfo& tensor,
                                            const Json& config, const std::string& location) {
  DecodedTensor out{rule.value_name(tensor.name), tensor.shape, tensor.shape,
                    identity_map(tensor.shape)};
  if (!is_packed(rule.kind)) return out;
  const std::size_t rank = tensor.shape.rank();
  if (rank < 2) return std::nullopt;
  const std::uint32_t bits = rule.kind == DecodeKind::packed ? packed_bits(config, location) : 4;
  const std::uint64_t last = tensor.shape[rank - 1] * (size_bits(tensor.dtype) / bits);
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

// The last codes of a row can be padding, which no rule's shape shows here.
void check_padding(const TensorInfo& tensor, const BlockScale& form) {
  if (tensor.dtype != DType::i32 || (form.col_block % 8 == 0 && form.cols % form.col_block == 0))
    return;
  throw Error(ErrorCode::unsupported, fmt::format("{} columns of packed integers in groups of {}",
                                                  form.cols, form.col_block))
      .in_tensor(tensor.name);
}

// Codes without a decoder aren't numbers, so they can't be cast.
void refuse_undecoded(const Json& config, const ModelBuilder& builder) {
  constexpr std::string_view kKeep = "leave out --dtype and --cast";
  if (!builder.options().dtype && builder.options().casts.empty()) return;
  const std::vector<TensorInfo>& tensors = builder.catalog().tensors;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (builder.use(i) != TensorUse::none) continue;
    if (const UndecodedMethod* method = quantization().undecoded_name(tensors[i].name))
      throw undecoded(*method, kKeep).in_tensor(tensors[i].name);
  }
  if (config.is_object() && !without_leftover(config, builder.catalog()))
    check_quantization(config, builder.catalog().location, kKeep);
}

// The decoded form of the coded tensors that no rule has used.
class DecodedTensors {
 public:
  struct Item {
    DecodedTensor form;
    Decode decode;
    DType codes = DType::u8;
  };
  DecodedTensors(const Decoders& decoders, ModelBuilder& builder)
      : decoders_(decoders), builder_(builder) {
    const std::vector<TensorInfo>& tensors = builder.catalog().tensors;
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (builder.use(i) != TensorUse::none) continue;
      if (const DecodeRule* rule = decoders.codes->decoder(tensors[i])) add(*rule, i);
    }
    if (!items_.empty() && !codes_left_) drop_beside_codes(builder);
    if (!codes_left_ || !builder.options().dtype) return;
    builder.model().notes.emplace_back("some codes stay as stored, whatever --dtype says");
  }

  // By tensor. All others have values.
  const std::map<std::uint32_t, Item>& items() const { return items_; }
  bool codes_left() const { return codes_left_; }

 private:
  // Decodes the tensors that are needed as values.
  void add(const DecodeRule& rule, std::uint32_t number) {
    const TensorInfo& tensor = builder_.catalog().tensors[number];
    auto form = decoded_tensor(rule, tensor, *decoders_.config, builder_.catalog().location);
    if (!form || !is_wanted(form->name, tensor)) {
      codes_left_ = true;
      return;
    }
    if (form->name != tensor.name && builder_.catalog().find(form->name)) {
      throw Error(
          ErrorCode::bad_input,
          fmt::format("the source also has the tensor that {} decodes to", quote(tensor.name)))
          .in_tensor(form->name)
          .hint("leave one of them out with --exclude");
    }
    const CodedTensor coded = decoders_.codes->coded(rule, tensor, form->view);
    check_padding(tensor, coded.form);
    for (const std::uint32_t beside : decoders_.codes->beside(rule, tensor))
      builder_.mark(beside, TensorUse::mapped);
    const DType codes = codes_dtype(coded.form.code, tensor.dtype);
    items_.emplace(number, Item{*std::move(form), decode_of({&coded, 1}), codes});
  }

  bool is_wanted(const std::string& name, const TensorInfo& tensor) const {
    const MappingOptions& options = builder_.options();
    const std::string path = builder_.leaf_name(name);
    const bool cast = std::ranges::any_of(
        options.casts, [&](const Cast& item) { return glob_match(item.glob, path); });
    if (cast) return true;
    if (decoders_.always) {
      if (!options.keep_dtype) return true;
      throw Error(ErrorCode::unsupported, "the tensor is quantized, and modules need values")
          .in_tensor(tensor.name)
          .hint("pass --dtype bf16 or --dtype f32 to decode it");
    }
    return options.dtype && *options.dtype != tensor.dtype;
  }

  Decoders decoders_;
  ModelBuilder& builder_;
  std::map<std::uint32_t, Item> items_;
  bool codes_left_ = false;
};

// Refuses casts that would change scales and leave their codes as stored.
class KeptParts {
 public:
  KeptParts(const Decoders& decoders, const DecodedTensors& decoded, const ModelBuilder& builder)
      : decoders_(decoders), builder_(builder) {
    if (!builder.options().dtype && builder.options().casts.empty()) return;
    const std::vector<TensorInfo>& tensors = builder.catalog().tensors;
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (!decoded.items().contains(i)) codes_.add(tensors[i]);
    }
  }

  void check_cast_of(const TensorInfo& part, DType dtype) const {
    const TensorInfo* codes = dtype == part.dtype ? nullptr : codes_.codes_of(part);
    if (codes == nullptr) return;
    const MappingOptions& options = builder_.options();
    if (decoders_.codes->decoder(*codes) != nullptr) {
      throw cast_of_part(part.name, codes->name, options)
          .hint("decode both with --dtype bf16, or leave both out of --cast");
    }
    check_cast(*codes, leaf_dtype(options, builder_.leaf_name(codes->name), codes->dtype, {}),
               builder_.catalog());
    throw cast_of_part(part.name, codes->name, options).hint(kKeepCodes);
  }

 private:
  const Decoders& decoders_;
  const ModelBuilder& builder_;
  KeptCodes codes_;
};

// Packed codes can be padded to whole words. The shape that is stored next to them tells, but isn't
// read here, so the run checks that it's the one of the codes.
void state_shapes(const DecodedTensors& decoded, ModelBuilder& builder) {
  // Source: vllm-project/compressed-tensors
  // src/compressed_tensors/compressors/quantized_compressors/pack_quantized.py (compress_weight).
  constexpr std::string_view kShape = "_shape";
  constexpr std::string_view kPacked = "_packed";
  for (Drop& drop : builder.model().drops) {
    std::string name = builder.catalog().tensors[drop.source].name;
    if (!name.ends_with(kShape)) continue;
    name.replace(name.size() - kShape.size(), kShape.size(), kPacked);
    const auto codes = builder.catalog().find(name);
    const auto item =
        codes ? decoded.items().find(static_cast<std::uint32_t>(*codes)) : decoded.items().end();
    if (item != decoded.items().end()) drop.states = item->second.form.shape;
  }
}

// Adds one transfer per unused tensor.
void take_tensors(const Decoders& decoders, std::uint32_t rule, ModelBuilder& builder) {
  CompiledModel& model = builder.model();
  const Catalog& catalog = builder.catalog();
  const Json& config = *decoders.config;
  refuse_undecoded(config, builder);
  const DecodedTensors decoded(decoders, builder);
  state_shapes(decoded, builder);
  const KeptParts kept(decoders, decoded, builder);
  model.leaves.reserve(catalog.tensors.size());
  model.transfers.reserve(catalog.tensors.size());
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    // Used by now are the scales of decoded tensors, and tensors of rules.
    if (builder.use(i) != TensorUse::none) continue;
    const TensorInfo& tensor = catalog.tensors[i];
    const auto found = decoded.items().find(i);
    const DecodedTensors::Item* item = found == decoded.items().end() ? nullptr : &found->second;
    Leaf leaf;
    leaf.name = builder.leaf_name(item != nullptr ? item->form.name : tensor.name);
    if (!builder.options().flat_names) check_path(leaf.name);
    leaf.dtype =
        leaf_dtype(builder.options(), leaf.name, item != nullptr ? DType::bf16 : tensor.dtype, {});
    leaf.shape = item != nullptr ? item->form.shape : tensor.shape;
    Transfer transfer;
    transfer.target = static_cast<std::uint32_t>(model.leaves.size());
    transfer.rule = rule;
    transfer.sources = {i};
    transfer.source_shape = tensor.shape;
    transfer.source_dtype = item != nullptr ? item->codes : tensor.dtype;
    transfer.map = identity_map(tensor.shape);
    if (item != nullptr) {
      transfer.source_shape = item->form.view;
      transfer.map = item->form.map;
      transfer.decode = std::make_shared<const Decode>(item->decode);
    } else {
      kept.check_cast_of(tensor, leaf.dtype);
      check_cast(tensor, leaf.dtype, catalog);
    }
    model.leaves.push_back(std::move(leaf));
    model.transfers.push_back(std::move(transfer));
    builder.mark(i, TensorUse::mapped);
  }
  if (!config.is_object()) return;
  const bool any = std::ranges::any_of(
      model.transfers, [](const Transfer& transfer) { return transfer.decode != nullptr; });
  const std::optional<Json> plain = without_leftover(config, catalog);
  if (plain) {
    model.notes.emplace_back(
        "no tensor is quantized, so quantization_config is left out of config.json");
  }
  Json stated = plain.value_or(config);
  if (any && !decoded.codes_left()) stated = without_quantization(std::move(stated));
  if (!(stated == config)) model.config_text = dump_json_pretty(stated);
}

}  // namespace

void compile_hf(ModelBuilder& builder) {
  const FamilyDecoders family(builder.catalog());
  take_tensors(family.get(), builder.rule("--scheme hf"), builder);
}

void compile_rest(const MappingTable& table, const Bindings& bindings, const Json& config,
                  ModelBuilder& builder) {
  const std::string dialect = "--dialect " + builder.options().dialect;
  const Codes codes(table, bindings, builder.catalog());
  take_tensors({&codes, &config, true}, builder.rule(dialect), builder);
}

}  // namespace hfshard
