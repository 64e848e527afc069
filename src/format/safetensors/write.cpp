#include "format/safetensors/write.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/json.h"
#include "base/text.h"
#include "format/safetensors/open.h"

#include "hfshard/error.h"

namespace hfshard::format::safetensors {
namespace {

constexpr std::uint64_t kHeaderMultiple = 8;
constexpr std::uint64_t kLengthFieldBytes = 8;
constexpr std::size_t kPassedBytes = std::size_t{1} << 16;

// Buffers text for a sink, and counts its bytes.
class TextSink {
 public:
  explicit TextSink(const ByteSink& sink) : sink_(sink) {}
  void put(std::string_view text) {
    buffer_ += text;
    bytes_ += text.size();
    if (buffer_.size() >= kPassedBytes) flush();
  }
  void flush() {
    if (!buffer_.empty()) sink_(as_bytes(buffer_));
    buffer_.clear();
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const ByteSink& sink_;
  std::string buffer_;
  std::uint64_t bytes_ = 0;
};

std::uint64_t element_bytes(const Leaf& leaf) { return size_bits(leaf.dtype) / 8; }

std::uint64_t data_bytes(const Leaf& leaf) { return packed_bytes(leaf.dtype, leaf.shape.numel()); }

std::string json_text(const std::string& text) { return dump_json(Json(text)); }

// Writes the JSON, padded with spaces. Returns its length.
std::uint64_t put_json(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file,
                       const ByteSink& sink) {
  TextSink out(sink);
  out.put(R"({"__metadata__":{"format":"pt"})");
  std::uint64_t at = 0;
  for (const std::uint32_t index : in_file) {
    const Leaf& leaf = leaves[index];
    const std::uint64_t end = at + data_bytes(leaf);
    out.put(fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json_text(leaf.name), safetensors_name(leaf.dtype),
                        fmt::join(leaf.shape.begin(), leaf.shape.end(), ","), at, end));
    at = end;
  }
  out.put("}");
  out.put(std::string(round_up(out.bytes(), kHeaderMultiple) - out.bytes(), ' '));
  out.flush();
  return out.bytes();
}

std::uint64_t json_bytes(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file) {
  return put_json(leaves, in_file, [](std::span<const std::byte>) {});
}

// Offsets count from the start of the data, which the header's padding aligns.
bool is_aligned(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file) {
  std::uint64_t at = 0;
  for (const std::uint32_t index : in_file) {
    if (at % element_bytes(leaves[index]) != 0) return false;
    at += data_bytes(leaves[index]);
  }
  return true;
}

bool is_digits(std::string_view text) {
  return text.size() >= 5 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

void check_writable(const Leaf& leaf) {
  if (leaf.name == "__metadata__") {
    throw Error(ErrorCode::unsupported, "safetensors headers use this name")
        .in_tensor(leaf.name)
        .hint("leave the tensor out with --exclude");
  }
  if (size_bits(leaf.dtype) % 8 == 0) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("hfshard can't write {}: its elements aren't whole bytes", to_string(leaf.dtype)))
      .in_tensor(leaf.name)
      .hint("leave the tensor out with --exclude");
}

ArrayFiles put_in_files(const std::vector<Leaf>& leaves, std::vector<std::uint32_t> order,
                        std::uint64_t file_bytes, std::uint64_t most_header_bytes) {
  ArrayFiles out;
  out.order = std::move(order);
  out.first.push_back(0);
  std::uint64_t used = 0;
  for (std::uint32_t i = 0; i < out.order.size(); ++i) {
    const std::uint64_t size = data_bytes(leaves[out.order[i]]);
    if (used > 0 && size > 0 && (used > file_bytes || size > file_bytes - used)) {
      out.first.push_back(i);
      used = 0;
    }
    used += size;
  }
  out.first.push_back(static_cast<std::uint32_t>(out.order.size()));
  for (std::size_t file = 0; file + 1 < out.first.size(); ++file) {
    const auto in_file =
        std::span(out.order).subspan(out.first[file], out.first[file + 1] - out.first[file]);
    if (!is_aligned(leaves, in_file)) {
      std::ranges::stable_sort(in_file, std::ranges::greater{},
                               [&](std::uint32_t index) { return element_bytes(leaves[index]); });
    }
    const std::uint64_t header = json_bytes(leaves, in_file);
    if (header > most_header_bytes) {
      throw Error(
          ErrorCode::limit,
          fmt::format(
              "the header of a file with {} tensors has {}, more than the {} that readers accept",
              in_file.size(), human_bytes(header), human_bytes(most_header_bytes)))
          .hint("pass a smaller --shard-bytes; smaller files have shorter headers");
    }
    out.leading_bytes.push_back(kLengthFieldBytes + header);
  }
  return out;
}

void write_header(const std::vector<Leaf>& leaves, std::span<const std::uint32_t> in_file,
                  const ByteSink& sink) {
  std::array<std::byte, kLengthFieldBytes> length{};
  store_le(length.data(), json_bytes(leaves, in_file));
  sink(length);
  put_json(leaves, in_file, sink);
}

// Has the form of json.dumps(index, indent=2, sort_keys=True) in transformers' save_pretrained.
void write_hf_index(const TreeSpec& tree, const Placements& placed, const ByteSink& sink) {
  const std::vector<Leaf>& leaves = *tree.leaves;
  std::vector<std::uint32_t> file_of(leaves.size());
  std::uint64_t total = 0;
  for (const Leaf& leaf : leaves) total += data_bytes(leaf);
  for (std::uint32_t file = 0; file < placed.file_count(); ++file) {
    for (const std::uint32_t index : tree.files->in_file(file)) file_of[index] = file;
  }
  TextSink out(sink);
  out.put(fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n", total));
  out.put("  \"weight_map\": {");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    out.put(fmt::format("{}\n    {}: {}", i == 0 ? "" : ",", json_text(leaves[i].name),
                        json_text(placed.file_path(file_of[i]))));
  }
  out.put("\n  }\n}\n");
  out.flush();
}

bool is_written_name(std::string_view name) {
  if (name == kSingleFile || name == kIndexName) return true;
  if (!name.starts_with(kDataPrefix) || !name.ends_with(kDataSuffix)) return false;
  name.remove_prefix(kDataPrefix.size());
  name.remove_suffix(kDataSuffix.size());
  const std::size_t middle = name.find(kDataCount);
  return middle != std::string_view::npos && is_digits(name.substr(0, middle)) &&
         is_digits(name.substr(middle + kDataCount.size()));
}

}  // namespace hfshard::format::safetensors
