// The checkpoints for a family's table: its example, variants of it, and the oracles'. Only
// accounting judges the variants.

#include "mutation/cases.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/family_info.h"
#include "mapping/resolve/find.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/table.h"
#include "mutation/derived.h"
#include "mutation/module_lines.h"
#include "mutation/stored_otherwise.h"
#include "plan/compile/compile_model.h"
#include "service/example.h"

#include "hfshard/error.h"

namespace hfshard::mutation {
namespace {

using Options = std::map<std::string, std::string>;

constexpr std::array<std::string_view, 3> kParts = {"mtp", "vision", "audio"};
constexpr std::string_view kTorchtitan = "torchtitan";
constexpr std::int64_t kFewerRows = 3;
constexpr std::int64_t kMoreRows = 5;
constexpr std::uint64_t kAnyExtent = 3;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::bad_input, fmt::format("{}: {}", where, what));
}

// Replaces the member at a dotted path, or removes it if `value` is null.
void set_key(Json& config, const std::string& path, const Json& value) {
  Json* at = &config;
  const std::vector<std::string> keys = split(path, '.');
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) at = &(*at)[keys[i]];
  if (value.is_null()) {
    at->object().erase(keys.back());
  } else {
    (*at)[keys.back()] = value;
  }
}

class CaseMaker {
 public:
  CaseMaker(const FamilyFile& family, const CaseSources& sources)
      : family_(family), sources_(sources), table_(load_table(family)) {}

  std::vector<Case> make() {
    for (const Scheme& scheme : table_.schemes) {
      scheme_ = scheme.name;
      of_scheme();
    }
    const Json modules = parse_json(read_file(sources_.modules), sources_.modules);
    for (const Scheme& dialect : table_.dialects) {
      for (const auto& [name, lines] : modules.as_object()) of_dialect(dialect, name, lines);
    }
    return std::move(cases_);
  }

 private:
  void of_scheme() {
    examples("example", table_.example, {});
    const Json variants = parse_json(read_file(sources_.variants), sources_.variants);
    if (const Json* mine = variants.find(family_.name)) {
      for (const auto& [name, variant] : mine->as_object()) variant_of_example(name, variant);
    }
    if (scheme_ == kTorchtitan) {
      for (const std::string& name : list_directory(sources_.torchtitan)) torchtitan(name);
    } else {
      for (const std::string& name : list_directory(sources_.oracles)) oracle(name);
    }
  }

  void variant_of_example(const std::string& name, const Json& variant) {
    Json config = table_.example;
    Options options;
    if (const Json* changes = variant.find("config")) {
      for (const auto& [path, value] : changes->as_object()) set_key(config, path, value);
    }
    if (const Json* chosen = variant.find("options")) {
      for (const auto& [key, value] : chosen->as_object()) options[key] = value.as_string();
    }
    examples(name, config, options);
  }

  bool knows(std::string_view option) const {
    return std::ranges::find(table_.options, option) != table_.options.end();
  }

  // Returns the parts that --with accepts.
  Options all_parts() const {
    Options out;
    for (const std::string_view part : kParts) {
      if (knows(part)) out.emplace(std::string(part), "true");
    }
    return out;
  }

  // Returns --vocab unchanged, smaller and larger. If a vocabulary is cut, only the remaining rows
  // are known.
  std::vector<Options> vocabularies(const Json& config, const Options& given) const {
    std::vector<Options> out{given};
    if (!knows("vocab") || scheme_ == kTorchtitan) return out;
    const Options none;
    const Bindings bindings(table_, config, none, {});
    const auto rows = static_cast<std::int64_t>(bindings.extent("V"));
    const auto vocab = given.find("vocab");
    const std::int64_t known = vocab == given.end() ? rows : std::stoll(vocab->second);
    for (const std::int64_t other : {rows - kFewerRows, rows + kMoreRows}) {
      if (known < rows && other > known) continue;
      out.push_back(given);
      out.back()["vocab"] = std::to_string(other);
    }
    return out;
  }

  // Adds a case for every layout, for `catalog` and also for dropped parts.
  void examples(const std::string& name, const Json& config, const Options& always) {
    Options parts = all_parts();
    bool with_parts = !parts.empty();
    parts.insert(always.begin(), always.end());
    Catalog catalog;
    try {
      if (with_parts)
        catalog =
            example_catalog(family_by_name(table_.family), config, DType::bf16, parts, scheme_);
    } catch (const Error& error) {  // a variant without such a part
      if (error.code() != ErrorCode::unsupported) throw;
      with_parts = false;
    }
    try {
      if (!with_parts)
        catalog =
            example_catalog(family_by_name(table_.family), config, DType::bf16, always, scheme_);
    } catch (const Error& error) {  // a variant for other loaders only
      if (error.code() != ErrorCode::unsupported || scheme_ != kTorchtitan) throw;
      return;
    }
    std::vector<Options> choices{always};
    if (with_parts) choices.push_back(parts);
    for (const Options& choice : choices) {
      for (const Options& options : vocabularies(config, choice)) {
        for (const bool stacked : {true, false}) example(name, config, catalog, options, stacked);
      }
    }
  }

  void example(const std::string& name, const Json& config, const Catalog& catalog,
               const Options& options, bool stacked) {
    if (!family_has_layout(family_by_name(table_.family), config, options, stacked, scheme_))
      return;
    Case out;
    out.options.scheme = scheme_;
    out.options.options = options;
    out.options.stacked = stacked;
    out.name = name_of(name, out.options);
    out.catalog = std::make_shared<const Catalog>(with_dropped(catalog, config, out.options));
    out.original = compiled(*out.catalog, out.options, out.name);
    cases_.push_back(std::move(out));
  }

  std::string name_of(const std::string& name, const MappingOptions& options) const {
    std::string out = fmt::format("{} {}, {}, {}", table_.family, name, scheme_,
                                  options.stacked ? "stacked" : "separate");
    for (const auto& [key, value] : options.options) out += fmt::format(", {}={}", key, value);
    return out;
  }

  CompiledModel compiled(const Catalog& catalog, const MappingOptions& options,
                         const std::string& name) const {
    try {
      return compile_model(catalog, options, table_);
    } catch (const Error& error) {
      fail(name, error.sentence() + " [" + error.tensor() + " " + error.rule() + "]");
    }
  }

  // An example lacks tensors that the table only drops. This adds one for each drop.
  Catalog with_dropped(const Catalog& catalog, const Json& config,
                       const MappingOptions& options) const {
    Catalog out = catalog;
    Bindings bindings(table_, config, options.options, shapes_of(catalog));
    const ResolvedModel model = resolve(table_.scheme_or_main(scheme_), bindings, options.stacked);
    std::set<std::string> added;
    for (const ResolvedDrop& drop : model.drops) {
      for (std::size_t i = 0; i < drop.sources.size(); ++i) {
        TensorInfo tensor;
        tensor.name = drop.sources[i];
        const std::size_t star = tensor.name.find('*');
        if (star != std::string::npos) tensor.name.replace(star, 1, "any.0");
        if (catalog.find(tensor.name) || !added.insert(tensor.name).second) continue;
        tensor.shape = drop.rule->pattern.whole ? Shape{kAnyExtent} : drop.layout.shape;
        if (!drop.same_as.empty()) {
          if (const auto twin = catalog.find(drop.same_as[i]))
            tensor.dtype = catalog.tensors[*twin].dtype;
        }
        tensor.size_bytes = packed_bytes(tensor.dtype, tensor.shape.numel());
        out.tensors.push_back(std::move(tensor));
      }
    }
    std::ranges::sort(out.tensors, {}, &TensorInfo::name);
    return out;
  }

  void oracle(const std::string& name) {
    const std::string directory = join_path(sources_.oracles, name);
    if (!exists(join_path(directory, "expected.json"))) return;
    const Json config = parse_json(read_file(join_path(directory, "config.json")), name);
    const FamilyFile* found = find_family(config);
    if (found == nullptr || found->name != family_.name) return;
    const Options options = options_in(directory);
    const auto catalog = std::make_shared<const Catalog>(open_catalog(directory));
    const auto bytes = std::make_shared<const TensorBytes>(read_all(*catalog));
    const Json expected = parse_json(read_file(join_path(directory, "expected.json")), name);
    for (const bool stacked : {true, false}) {
      const Json* leaves = expected.find(stacked ? "scanned" : "unscanned");
      if (leaves == nullptr || leaves->is_null()) continue;
      Case out;
      out.catalog = catalog;
      out.bytes = bytes;
      out.options.options = options;
      out.options.stacked = stacked;
      out.name = name_of("oracle " + name, out.options);
      out.original = compiled(*catalog, out.options, out.name);
      confirm(out, *leaves);
      cases_.push_back(out);
      first_layers(out);
      cut_and_pad(out, config);
      without_parts(out, config, stacked);
      in_other_forms(out, config);
      stored_otherwise(out, config);
      const bool only = expected.at("scanned").is_null();
      if (only) without_parts(out, config, true);
    }
  }

  static Options options_in(const std::string& directory) {
    Options out;
    const std::string path = join_path(directory, "options.json");
    if (!exists(path)) return out;
    const Json file = parse_json(read_file(path), path);
    for (const auto& [key, value] : file.as_object()) out[key] = value.as_string();
    return out;
  }

  // Adds an oracle's checkpoint as transformers reads it. Other schemes judge codes.
  void of_dialect(const Scheme& dialect, const std::string& name, const Json& lines) {
    const std::string directory = join_path(sources_.oracles, name);
    if (!exists(join_path(directory, "config.json"))) return;
    const Json config = parse_json(read_file(join_path(directory, "config.json")), name);
    const FamilyFile* found = find_family(config);
    if (found == nullptr || found->name != family_.name) return;
    if (config.find("quantization_config") != nullptr) return;
    Case out;
    const auto catalog = std::make_shared<const Catalog>(open_catalog(directory));
    out.catalog = catalog;
    out.bytes = std::make_shared<const TensorBytes>(read_all(*catalog));
    out.options.scheme = dialect.rest;
    out.options.dialect = dialect.name;
    out.options.flat_names = true;
    out.options.stacked = false;
    out.name = fmt::format("{}, {} of oracle {}", family_.name, dialect.name, name);
    out.original = compiled(*catalog, out.options, out.name);
    for (std::uint32_t i = 0; i < out.original.leaves.size(); ++i)
      out.right.push_back(execute_leaf(out, out.original, i));
    const std::vector<std::string> other = other_lines(out, lines);
    if (!other.empty()) fail(out.name, "transformers has another " + other.front());
    cases_.push_back(out);
    stored_otherwise(out, config);
    out.options.num_layers = 1;
    out.name = "first of " + out.name;
    out.original = compiled(*catalog, out.options, out.name);
    out.right.clear();
    for (std::uint32_t i = 0; i < out.original.leaves.size(); ++i)
      out.right.push_back(execute_leaf(out, out.original, i));
    cases_.push_back(std::move(out));
  }

  // Adds the tree of torchtitan's own adapter, which has separate layers. It decodes FP8 as f32.
  void torchtitan(const std::string& name) {
    const std::string directory = join_path(sources_.torchtitan, name);
    if (!exists(join_path(directory, "expected.json"))) return;
    const Json config = parse_json(read_file(join_path(directory, "config.json")), name);
    const FamilyFile* found = find_family(config);
    if (found == nullptr || found->name != family_.name) return;
    const Json leaves = parse_json(read_file(join_path(directory, "expected.json")), name);
    const auto catalog = std::make_shared<const Catalog>(open_catalog(directory));
    const bool coded = std::ranges::any_of(
        catalog->tensors, [](const TensorInfo& info) { return info.dtype == DType::f8_e4m3; });
    Case out;
    out.catalog = catalog;
    out.bytes = std::make_shared<const TensorBytes>(read_all(*catalog));
    out.options.scheme = scheme_;
    out.options.options = options_in(directory);
    out.options.stacked = false;
    for (const auto& [leaf, facts] : leaves.as_object()) {
      if (coded && facts.at("dtype").as_string() == numpy_name(DType::f32))
        out.options.casts.push_back({leaf, DType::f32});
    }
    out.name = name_of("oracle " + name, out.options);
    out.original = compiled(*catalog, out.options, out.name);
    confirm(out, leaves);
    cases_.push_back(out);
    stored_otherwise(out, config);
  }

  static TensorBytes read_all(const Catalog& catalog) {
    std::vector<std::string> files;
    for (const CatalogFile& file : catalog.files) files.push_back(file.path.read());
    TensorBytes out;
    for (const TensorInfo& tensor : catalog.tensors) {
      const auto all = as_bytes(files[tensor.file]).subspan(tensor.begin_bytes, tensor.size_bytes);
      out.emplace_back(all.begin(), all.end());
    }
    return out;
  }

  // Executes the original and compares it with expected.json.
  static void confirm(Case& out, const Json& leaves) {
    const CompiledModel& model = out.original;
    if (model.leaves.size() != leaves.as_object().size())
      fail(out.name, fmt::format("{} leaves, the oracle has {}", model.leaves.size(),
                                 leaves.as_object().size()));
    for (std::uint32_t i = 0; i < model.leaves.size(); ++i) {
      const Leaf& leaf = model.leaves[i];
      std::string path = leaf.name;
      for (const std::string_view root : {"params.", "params."}) {  // a collection is below one
        if (path.starts_with(root)) path.erase(0, root.size());
      }
      if (path != leaf.name) std::ranges::replace(path, '.', '/');
      const Json* facts = leaves.find(path);
      if (facts == nullptr) fail(out.name, "the oracle has no leaf " + path);
      Shape shape;
      for (const Json& extent : facts->at("shape").as_array()) shape.push_back(extent.as_uint());
      if (!(shape == leaf.shape)) fail(out.name, "the oracle has another shape of " + path);
      if (facts->at("dtype").as_string() != numpy_name(leaf.dtype))
        fail(out.name, "the oracle has another dtype of " + path);
      out.right.push_back(execute_leaf(out, model, i));
      Sha256 sha;
      sha.update(out.right.back());
      if (to_hex(sha.finish()) != facts->at("sha256").as_string())
        fail(out.name, "the oracle has other bytes of " + path);
    }
  }

  static std::string_view numpy_name(DType dtype) {
    if (dtype == DType::bf16) return "bfloat16";
    if (dtype == DType::f16) return "float16";
    if (dtype == DType::f8_e4m3) return "float8_e4m3fn";
    return dtype == DType::f32 ? "float32" : to_string(dtype);
  }

  // Adds the fewest layers that --num-layers accepts, which only accounting judges.
  void first_layers(const Case& whole) {
    Case out;
    out.catalog = whole.catalog;
    out.options = whole.options;
    const Json config = parse_json(whole.catalog->config_text, whole.name);
    const std::uint64_t all = Bindings(table_, config, out.options.options, {}).extent("L");
    for (std::uint64_t layers = 1; layers < all; ++layers) {
      out.options.num_layers = layers;
      try {
        out.original = compile_model(*out.catalog, out.options, table_);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::usage) throw;
        continue;  // it cuts a block
      }
      out.name = fmt::format("first {} of {}", layers, whole.name);
      cases_.push_back(std::move(out));
      return;
    }
  }

  // Adds other --vocab values: the oracle's leaves with fewer rows, or with rows of zeros.
  void cut_and_pad(const Case& whole, const Json& config) {
    for (const Options& options : vocabularies(config, whole.options.options)) {
      if (options == whole.options.options) continue;
      const std::uint64_t rows = std::stoull(options.at("vocab"));
      Case out = derived(whole, options, whole.options.stacked);
      if (out.original.leaves.size() != whole.original.leaves.size())
        fail(out.name, "other leaves than without --vocab");
      for (std::uint32_t i = 0; i < out.original.leaves.size(); ++i)
        out.right.push_back(with_rows(whole, i, rows));
      add_derived(std::move(out));
    }
  }

  // Adds the same model with another storage or config.
  void stored_otherwise(const Case& whole, const Json& config) {
    for (const StoredOtherwise& other : stored_otherwise_of(whole, config, table_)) {
      Catalog catalog = *whole.catalog;
      catalog.config_text = dump_json(other.config);
      catalog.tensors.clear();
      TensorBytes bytes;
      for (const auto& [tensor, data] : other.tensors) {
        catalog.tensors.push_back(tensor);
        bytes.push_back(data);
      }
      Case out;
      out.catalog = std::make_shared<const Catalog>(std::move(catalog));
      out.bytes = std::make_shared<const TensorBytes>(std::move(bytes));
      out.options = whole.options;
      out.name = whole.name + ", " + other.how;
      out.original = compiled(*out.catalog, out.options, out.name);
      for (const Leaf& leaf : out.original.leaves) out.right.push_back(other.right(leaf));
      add_derived(std::move(out));
    }
  }

  // Adds the case without --with: the oracle's leaves without those of the parts.
  void without_parts(const Case& whole, const Json& config, bool stacked) {
    Options options = whole.options.options;
    for (const std::string_view part : kParts) options.erase(std::string(part));
    if (options == whole.options.options) return;
    if (!family_has_layout(family_by_name(table_.family), config, options, stacked)) return;
    Case out = derived(whole, options, stacked);
    for (const Leaf& leaf : out.original.leaves) out.right.push_back(made_of(whole, leaf));
    add_derived(std::move(out));
  }

  // Adds the other forms of a tree whose form an oracle states: its leaves, in other collections.
  void in_other_forms(const Case& whole, const Json& config) {
    for (const auto& [name, values] : table_.scheme_or_main(scheme_).forms) {
      const auto stated = whole.options.options.find(name);
      if (stated == whole.options.options.end()) continue;
      for (const std::string& value : values) {
        if (value == stated->second) continue;
        Options options = whole.options.options;
        options[name] = value;
        Case out = derived(whole, options, whole.options.stacked);
        for (const Leaf& leaf : out.original.leaves)
          out.right.push_back(in_any_collection(whole, leaf.name));
        add_derived(out);
        cut_and_pad(out, config);
      }
    }
  }

  // Returns the bytes of the leaf with this name below the first two keys.
  static std::vector<std::byte> in_any_collection(const Case& whole, const std::string& name) {
    const auto below = [](const std::string& path) {
      return path.substr(path.find('.', path.find('.') + 1) + 1);
    };
    const std::vector<Leaf>& leaves = whole.original.leaves;
    const auto found =
        std::ranges::find(leaves, below(name), [&](const Leaf& leaf) { return below(leaf.name); });
    if (found == leaves.end()) fail(whole.name, "the oracle has no leaf " + name);
    return whole.right[static_cast<std::size_t>(found - leaves.begin())];
  }

  Case derived(const Case& whole, const Options& options, bool stacked) const {
    Case out;
    out.catalog = whole.catalog;
    out.bytes = whole.bytes;
    out.options = whole.options;
    out.options.options = options;
    out.options.stacked = stacked;
    out.name = name_of("of " + whole.name, out.options);
    out.original = compiled(*out.catalog, out.options, out.name);
    return out;
  }

  void add_derived(Case derived) {
    for (std::uint32_t i = 0; i < derived.original.leaves.size(); ++i) {
      if (execute_leaf(derived, derived.original, i) != derived.right[i])
        fail(derived.name, "wrong bytes in " + derived.original.leaves[i].name);
    }
    cases_.push_back(std::move(derived));
  }

  const FamilyFile& family_;
  const CaseSources& sources_;
  MappingTable table_;
  std::string scheme_;
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> make_cases(const FamilyFile& family, const CaseSources& sources) {
  return CaseMaker(family, sources).make();
}

}  // namespace hfshard::mutation
