// Makes checkpoints with the same experts in another form, with plain loops.

#include "mutation/stored_otherwise.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "mapping/resolve/bindings.h"
#include "mutation/derived.h"

namespace hfshard::mutation {
namespace {

constexpr std::string_view kGateUp = ".experts.gate_up_proj";
constexpr std::string_view kDown = ".experts.down_proj";

bool is_fused(const TensorInfo& tensor) {
  return tensor.shape.rank() == 3 &&
         (tensor.name.ends_with(kGateUp) || tensor.name.ends_with(kDown));
}

std::size_t element_bytes(const TensorInfo& tensor) { return size_bits(tensor.dtype) / 8; }

Bytes turned(const TensorInfo& tensor, const Bytes& data) {
  const auto [experts, rows, columns] =
      std::array<std::size_t, 3>{tensor.shape[0], tensor.shape[1], tensor.shape[2]};
  const std::size_t size = element_bytes(tensor);
  Bytes out(data.size());
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        const auto from = static_cast<std::ptrdiff_t>(((e * rows + r) * columns + c) * size);
        const auto to = static_cast<std::ptrdiff_t>(((e * columns + c) * rows + r) * size);
        std::copy_n(data.begin() + from, size, out.begin() + to);
      }
    }
  }
  return out;
}

// Adds rows of one expert as a separate tensor.
void add_matrix(const TensorInfo& fused, const Bytes& data, std::size_t expert, std::size_t begin,
                std::size_t rows, std::string_view name, StoredTensors& out) {
  const std::size_t row = fused.shape[2] * element_bytes(fused);
  const std::size_t first = (expert * fused.shape[1] + begin) * row;
  TensorInfo tensor = fused;
  const std::size_t stem = fused.name.find(".experts.");
  tensor.name = fmt::format("{}.experts.{}.{}.weight", fused.name.substr(0, stem), expert, name);
  tensor.shape = Shape{rows, fused.shape[2]};
  tensor.size_bytes = rows * row;
  const auto from = data.begin() + static_cast<std::ptrdiff_t>(first);
  out.emplace_back(std::move(tensor), Bytes(from, from + static_cast<std::ptrdiff_t>(rows * row)));
}

StoredTensors tensors_of(const Case& oracle) {
  StoredTensors out;
  for (std::size_t t = 0; t < oracle.catalog->tensors.size(); ++t)
    out.emplace_back(oracle.catalog->tensors[t], (*oracle.bytes)[t]);
  return out;
}

StoredTensors with_turned_experts(StoredTensors tensors) {
  bool any = false;
  for (auto& [tensor, data] : tensors) {
    if (!is_fused(tensor)) continue;
    any = true;
    data = turned(tensor, data);
    std::swap(tensor.shape[1], tensor.shape[2]);
  }
  return any ? tensors : StoredTensors();
}

StoredTensors with_split_experts(const StoredTensors& tensors) {
  StoredTensors out;
  for (const auto& [tensor, data] : tensors) {
    if (!is_fused(tensor)) {
      out.emplace_back(tensor, data);
      continue;
    }
    for (std::size_t e = 0; e < tensor.shape[0]; ++e) {
      if (tensor.name.ends_with(kDown)) {
        add_matrix(tensor, data, e, 0, tensor.shape[1], "down_proj", out);
        continue;
      }
      const std::size_t half = tensor.shape[1] / 2;
      add_matrix(tensor, data, e, 0, half, "gate_proj", out);
      add_matrix(tensor, data, e, half, half, "up_proj", out);
    }
  }
  if (out.size() == tensors.size()) return {};
  std::ranges::sort(out, {}, [](const auto& one) { return one.first.name; });
  return out;
}

// Fuses one matrix of each expert into one tensor, gate before up:
// `.experts.3.up_proj.weight_scale_inv` is in `.experts.gate_up_proj_scale_inv`.
StoredTensors with_fused_experts(const StoredTensors& tensors) {
  constexpr std::string_view kExperts = ".experts.";
  constexpr std::string_view kWeight = ".weight";
  // By name, expert and half.
  std::map<std::string, std::map<std::pair<std::uint64_t, bool>, std::size_t>> fused;
  StoredTensors out;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::string& name = tensors[t].first.name;
    const std::size_t at = name.find(kExperts);
    if (at == std::string::npos) {
      out.push_back(tensors[t]);
      continue;
    }
    const std::vector<std::string> keys = split(name.substr(at + kExperts.size()), '.');
    const bool down = keys[1] == "down_proj";
    const std::string stem = name.substr(0, at) + std::string(down ? kDown : kGateUp);
    const std::string end = name.substr(name.find(kWeight) + kWeight.size());
    fused[stem + end][{parse_whole(keys[0]).value(), keys[1] == "up_proj"}] = t;
  }
  for (const auto& [name, parts] : fused) {
    TensorInfo tensor = tensors[parts.begin()->second].first;
    const std::uint64_t halves = name.find(kGateUp) == std::string::npos ? 1 : 2;
    tensor.name = name;
    tensor.shape = Shape{parts.size() / halves, halves * tensor.shape[0], tensor.shape[1]};
    Bytes data;
    for (const auto& [place, t] : parts)
      data.insert(data.end(), tensors[t].second.begin(), tensors[t].second.end());
    tensor.size_bytes = data.size();
    out.emplace_back(std::move(tensor), std::move(data));
  }
  return out;
}

// Makes the checkpoints of one oracle.
class Maker {
 public:
  Maker(const Case& oracle, const Json& config, const MappingTable& table)
      : oracle_(oracle), config_(config), table_(table), tensors_(tensors_of(oracle)) {}

  std::vector<StoredOtherwise> make() && {
    const bool dialect = oracle_.options.dialect != MappingOptions().dialect;
    const bool out_in = oracle_.name.find("out-in") != std::string::npos;
    if (table_.family == "qwen3_5" || (dialect && out_in)) experts();
    if (table_.family == "gemma4" && dialect) split_experts();
    if (keeps_codes(oracle_.options.options))
      add("fused experts", config_, with_fused_experts(tensors_), as_it_was());
    const bool titan = oracle_.options.scheme == "torchtitan";
    if (titan || dialect) head();
    if (titan) {
      biases();
      dense_layers();
    }
    return std::move(out_);
  }

 private:
  static auto by_name() {
    return [](const std::pair<TensorInfo, Bytes>& one) { return one.first.name; };
  }

  std::function<Bytes(const Leaf&)> as_it_was() const {
    return [&oracle = oracle_](const Leaf& leaf) { return made_of(oracle, leaf); };
  }

  void add(const std::string& how, Json config, StoredTensors tensors,
           std::function<Bytes(const Leaf&)> right) {
    std::ranges::sort(tensors, {}, by_name());
    out_.push_back({how, std::move(config), std::move(tensors), std::move(right)});
  }

  void experts() {
    const bool published = std::ranges::any_of(tensors_, [&](const auto& one) {
      const Shape& shape = one.first.shape;  // [E, 2 F, D] and [E, D, F]
      return one.first.name.ends_with(kDown) &&
             oracle_.name.find("transposed") == std::string::npos && shape.rank() == 3;
    });
    if (!published) return;
    add("turned experts", config_, with_turned_experts(tensors_), as_it_was());
    split_experts();
  }

  void split_experts() {
    StoredTensors split = with_split_experts(tensors_);
    if (!split.empty()) add("split experts", config_, std::move(split), as_it_was());
  }

  void head() {
    constexpr std::string_view kHead = "lm_head.weight";
    if (!table_.dims.contains("tied")) return;
    const Bindings::Options& options = oracle_.options.options;
    const ExprValue tie = Bindings(table_, config_, options, {}).lookup("tied");
    const bool tied = std::get<bool>(tie);
    Json config = config_;
    config["tie_word_embeddings"] = !tied;
    if (config.find("text_config") != nullptr) config["text_config"]["tie_word_embeddings"] = !tied;
    StoredTensors tensors = tensors_;
    const auto embedding = std::ranges::find_if(
        tensors, [](const auto& one) { return one.first.name.ends_with("embed_tokens.weight"); });
    TensorInfo head = embedding->first;
    head.name = kHead;
    Bytes data = embedding->second;
    std::erase_if(tensors, [&](const auto& one) {
      return one.first.name.ends_with(kHead) || one.first.name == "head.weight";
    });
    if (tied) {
      std::ranges::reverse(data);
      tensors.emplace_back(head, data);
    }
    add(tied ? "untied" : "tied", std::move(config), std::move(tensors),
        [right = as_it_was(), data = std::move(data), kHead](const Leaf& leaf) {
          return leaf.name == kHead ? data : right(leaf);
        });
  }

  static bool is_bias(const std::pair<TensorInfo, Bytes>& one) {
    return one.first.name.ends_with("e_score_correction_bias");
  }

  // Missing biases are zeros. bf16 biases, here the upper halves, stay bf16.
  void biases() {
    if (std::ranges::none_of(tensors_, is_bias)) return;
    StoredTensors none = tensors_;
    std::erase_if(none, is_bias);
    Json greedy = config_;
    greedy["topk_method"] = "greedy";
    add("without biases", std::move(greedy), std::move(none),
        [right = as_it_was()](const Leaf& leaf) {
          Bytes bytes = right(leaf);
          if (leaf.name.ends_with("expert_bias_E")) std::ranges::fill(bytes, std::byte{0});
          return bytes;
        });
    if (!oracle_.options.casts.empty()) return;
    StoredTensors narrow = tensors_;
    for (auto& one : narrow) {
      if (!is_bias(one)) continue;
      one.first.dtype = DType::bf16;
      one.first.size_bytes /= 2;
      one.second = upper_halves(one.second);
    }
    add("narrow biases", config_, std::move(narrow), [right = as_it_was()](const Leaf& leaf) {
      return leaf.name.ends_with("expert_bias_E") ? upper_halves(right(leaf)) : right(leaf);
    });
  }

  static Bytes upper_halves(const Bytes& wide) {
    Bytes out;
    for (std::size_t at = 0; at < wide.size(); at += 4) {
      out.push_back(wide[at + 2]);
      out.push_back(wide[at + 3]);
    }
    return out;
  }

  // DeepSeek with a dense second layer. Its MLP is the reverse of the first one's.
  void dense_layers() {
    if (table_.family != "deepseek") return;
    constexpr std::string_view kFirst = "layers.0.mlp.";
    constexpr std::string_view kSecond = "layers.1.mlp.";
    StoredTensors tensors;
    for (const auto& [tensor, data] : tensors_) {
      if (tensor.dtype != DType::bf16 && tensor.name.find(kFirst) != std::string::npos) return;
      if (tensor.name.find(kSecond) != std::string::npos) continue;
      tensors.emplace_back(tensor, data);
      const std::size_t at = tensor.name.find(kFirst);
      if (at == std::string::npos) continue;
      tensors.push_back(tensors.back());
      tensors.back().first.name.replace(at, kFirst.size(), kSecond);
      std::ranges::reverse(tensors.back().second);
    }
    Json config = config_;
    Json& text = config.find("text_config") != nullptr ? config["text_config"] : config;
    text["first_k_dense_replace"] = 2;
    add("two dense layers", std::move(config), std::move(tensors),
        [right = as_it_was()](const Leaf& leaf) {
          constexpr std::string_view kLeaf = "layers.1.feed_forward.";
          if (!leaf.name.starts_with(kLeaf)) return right(leaf);
          Leaf first = leaf;
          first.name.replace(0, kLeaf.size(), "layers.0.feed_forward.");
          Bytes bytes = right(first);
          std::ranges::reverse(bytes);
          return bytes;
        });
  }

  const Case& oracle_;
  const Json& config_;
  const MappingTable& table_;
  StoredTensors tensors_;
  std::vector<StoredOtherwise> out_;
};

}  // namespace

std::vector<StoredOtherwise> stored_otherwise_of(const Case& oracle, const Json& config,
                                                 const MappingTable& table) {
  return Maker(oracle, config, table).make();
}

}  // namespace hfshard::mutation
