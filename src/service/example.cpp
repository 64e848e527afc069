#include "service/example.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/digest.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "mapping/resolve/find.h"

namespace hfshard {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::size_t kWordBytes = 8;
constexpr std::uint64_t kHeaderAlignment = 8;  // like safetensors' own writer
constexpr std::string_view kFormatMember = R"("__metadata__":{"format":"pt"})";

// Side files with the usual names, so that copying them is exercised.
constexpr std::string_view kTokenizerConfig =
    "{\n  \"model_max_length\": 4096,\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
constexpr std::string_view kGenerationConfig =
    "{\n  \"_from_model_config\": true,\n  \"do_sample\": false\n}\n";

// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014;
// the mixing function of splitmix64.
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Bits of an index, which every model's tables have, such as 0 to 3 for an expert.
constexpr std::uint64_t kIndices = 3;

// Turns 64 random bits into values. It clears the bits outside of `keep`. Then `add` raises the
// three remaining exponent bits to 2^-8 .. 2^-1. No sum carries into the sign.
struct Lanes {
  std::uint64_t keep = 0;
  std::uint64_t add = 0;
};

Lanes lanes_of(DType dtype, bool scale) {
  if (scale && (dtype == DType::u8 || dtype == DType::f8_e8m0))
    return {0x0303030303030303ULL, 0x7d7d7d7d7d7d7d7dULL};
  if (dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2) return {0xbfbfbfbfbfbfbfbfULL, 0};
  if (dtype == DType::i64) return {kIndices, 0};
  if (!is_float(dtype) || dtype == DType::f4) return {~0ULL, 0};
  if (dtype == DType::bf16) return {0x83ff83ff83ff83ffULL, 0x3b803b803b803b80ULL};
  if (dtype == DType::f16) return {0x9fff9fff9fff9fffULL, 0x1c001c001c001c00ULL};
  HFSHARD_CHECK(dtype == DType::f32);
  return {0x83ffffff83ffffffULL, 0x3b8000003b800000ULL};
}

// One safetensors file to write.
struct Shard {
  std::vector<const ExpectedTensor*> tensors;
  std::uint64_t data_bytes = 0;
  std::string name;
};

std::uint64_t tensor_bytes(const ExpectedTensor& tensor, DType dtype) {
  return packed_bytes(tensor.dtype.value_or(dtype), tensor.shape.numel());
}

std::vector<Shard> make_shards(const std::vector<ExpectedTensor>& tensors,
                               const ExampleOptions& options) {
  std::vector<Shard> out(1);
  for (const ExpectedTensor& tensor : tensors) {
    const std::uint64_t bytes = tensor_bytes(tensor, options.dtype);
    const auto total = checked_add(out.back().data_bytes, bytes);
    if (!total || (*total > options.shard_bytes && !out.back().tensors.empty())) {
      out.emplace_back();
    }
    out.back().tensors.push_back(&tensor);
    out.back().data_bytes += bytes;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].name = out.size() == 1
                      ? "model.safetensors"
                      : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, out.size());
  }
  return out;
}

std::string header_text(const Shard& shard, DType dtype) {
  std::string out = "{";
  out += kFormatMember;
  std::uint64_t begin = 0;
  for (const ExpectedTensor* tensor : shard.tensors) {
    const std::uint64_t end = begin + tensor_bytes(*tensor, dtype);
    fmt::format_to(std::back_inserter(out),
                   R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   dump_json(Json(tensor->name)), safetensors_name(tensor->dtype.value_or(dtype)),
                   fmt::join(tensor->shape.begin(), tensor->shape.end(), ","), begin, end);
    begin = end;
  }
  out += "}";
  out.resize(round_up(out.size(), kHeaderAlignment), ' ');
  std::string length(kWordBytes, '\0');
  const std::uint64_t size = out.size();
  std::memcpy(length.data(), &size, kWordBytes);
  return length + out;
}

void write_small_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write_at(0, as_bytes(text));
}

std::string index_text(const std::vector<Shard>& shards, std::uint64_t data_bytes) {
  Json index;
  index["metadata"]["total_size"] = data_bytes;
  Json& map = index["weight_map"];
  for (const Shard& shard : shards) {
    for (const ExpectedTensor* tensor : shard.tensors) map[tensor->name] = shard.name;
  }
  return dump_json_pretty(index);
}

// Writes the files of one example through one buffer.
class Writer {
 public:
  Writer(const ExampleOptions& options, Reporter& reporter)
      : options_(options), reporter_(reporter), buffer_(options.sparse ? 0 : kBufferBytes) {}

  // Returns the file's size.
  std::uint64_t write(const Shard& shard) {
    OutputFile file(join_path(options_.out, shard.name));
    const std::string header = header_text(shard, options_.dtype);
    file.write_at(0, as_bytes(header));
    const std::uint64_t size = header.size() + shard.data_bytes;
    if (options_.sparse) {
      file.resize(size);
      reporter_.advanced(shard.data_bytes);
      return size;
    }
    std::uint64_t offset = header.size();
    for (const ExpectedTensor* tensor : shard.tensors) {
      const std::uint64_t bytes = tensor_bytes(*tensor, options_.dtype);
      write_tensor(file, offset, *tensor, bytes);
      offset += bytes;
    }
    return size;
  }

 private:
  void write_tensor(OutputFile& file, std::uint64_t offset, const ExpectedTensor& tensor,
                    std::uint64_t bytes) {
    const std::uint64_t stream = hash_block(options_.seed, as_bytes(tensor.name)).low;
    const DType dtype = tensor.dtype.value_or(options_.dtype);
    for (std::uint64_t done = 0; done < bytes;) {
      const std::size_t step =
          static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, buffer_.size()));
      const std::span<std::byte> piece = std::span(buffer_).first(step);
      fill_random(stream, done / kWordBytes, dtype, piece, tensor.scale);
      file.write_at(offset + done, piece);
      reporter_.advanced(step);
      done += step;
    }
  }

  const ExampleOptions& options_;
  Reporter& reporter_;
  std::vector<std::byte> buffer_;
};

void check_dtype(DType dtype) {
  if (dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32) return;
  throw Error(ErrorCode::usage,
              fmt::format("pass --dtype bf16, f16 or f32, not {}", to_string(dtype)));
}

void check_out(const std::string& out) {
  const auto info = file_info(out);
  if (!info && !exists(out)) return;
  if (info && info->kind == FileKind::directory && list_directory(out).empty()) return;
  throw Error(ErrorCode::conflict, info && info->kind == FileKind::directory
                                       ? "the directory for the example isn't empty"
                                       : "a file with this name exists")
      .in_file(out)
      .hint("remove it, or pass another directory");
}

void check_space(const ExampleOptions& options, std::uint64_t data_bytes) {
  if (options.sparse) return;
  const std::uint64_t free = free_bytes(options.out);
  if (data_bytes <= free) return;
  throw Error(ErrorCode::limit,
              fmt::format("the example needs {} ({} bytes), and the disk has {} free",
                          human_bytes(data_bytes), data_bytes, human_bytes(free)))
      .in_file(options.out)
      .hint("pass --sparse to write files of full size that take no disk space");
}

// Takes a number from the front, without leading zeros.
std::string_view take_number(std::string_view& text) noexcept {
  while (text.size() > 1 && text[0] == '0' && is_digit(text[1])) text.remove_prefix(1);
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const std::string_view out = text.substr(0, length);
  text.remove_prefix(length);
  return out;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) noexcept {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view left = take_number(a);
      const std::string_view right = take_number(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else {
      if (a[0] != b[0]) return a[0] < b[0];
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;
}

void fill_random(std::uint64_t stream, std::uint64_t first_word, DType dtype,
                 std::span<std::byte> out, bool scale) {
  const Lanes lanes = lanes_of(dtype, scale);
  std::uint64_t counter = stream + first_word * kGolden;
  std::byte* at = out.data();
  for (std::size_t words = out.size() / kWordBytes; words > 0; --words) {
    counter += kGolden;
    store_le(at, (mix(counter) & lanes.keep) + lanes.add);
    at += kWordBytes;
  }
  const std::uint64_t last = (mix(counter + kGolden) & lanes.keep) + lanes.add;
  const std::size_t rest = out.size() % kWordBytes;
  if (rest > 0) std::memcpy(at, &last, rest);
}

FamilyFile chosen_family(const FamilyChoice& choice) {
  const auto asked = [](const MappingFile& file) { return file.asked; };
  const auto wanted = [&](const MappingFile& file) { return file.family == choice.family; };
  if (!choice.family.empty()) {
    const auto other = std::ranges::find_if(choice.own, asked);
    if (other != choice.own.end() && std::ranges::none_of(choice.own, wanted)) {
      throw Error(ErrorCode::usage,
                  fmt::format("{} belongs to family {}, not to {}", quote(other->name),
                              quote(other->family), quote(choice.family)))
          .hint("leave out FAMILY or --mapping");
    }
    return family_by_name(choice.family, choice.own);
  }
  if (std::ranges::count_if(choice.own, asked) != 1)
    throw Error(ErrorCode::usage, "pass a FAMILY, or one --mapping FILE");
  return family_by_name(std::ranges::find_if(choice.own, asked)->family, choice.own);
}

Json example_config(const FamilyFile& family, const std::string& text, const std::string& name,
                    const std::vector<MappingFile>& own) {
  FamilyInfo info = info_of_family(family, false);
  if (text.empty()) return std::move(info.example);
  Json config = parse_json(text, name);
  const auto found = find_family(config, own);
  if (!found || found->name != family.name) {
    throw Error(ErrorCode::bad_input,
                !found ? fmt::format("the config's model_type doesn't belong to family {}",
                                     quote(family.name))
                       : fmt::format("the config belongs to family {}, not to {}",
                                     quote(found->name), quote(family.name)))
        .in_file(name)
        .hint(found ? fmt::format("pass {} as FAMILY", found->name)
                    : "set model_type to one of " + join(info.model_types, ", "));
  }
  return config;
}

Catalog example_catalog(const FamilyFile& family, const Json& config, DType dtype,
                        const std::map<std::string, std::string>& options,
                        std::string_view scheme) {
  Catalog out;
  out.location = "the example of family " + std::string(family.name);
  out.config_text = dump_json(config);
  out.files.resize(1);
  out.files[0].path = out.files[0].name = "model.safetensors";
  for (ExpectedTensor& expected : expected_tensors(family, config, options, scheme)) {
    TensorInfo tensor;
    tensor.name = std::move(expected.name);
    tensor.dtype = expected.dtype.value_or(dtype);
    tensor.shape = expected.shape;
    tensor.begin_bytes = out.files[0].size_bytes;
    tensor.size_bytes = packed_bytes(tensor.dtype, tensor.shape.numel());
    out.files[0].size_bytes += tensor.size_bytes;
    out.tensors.push_back(std::move(tensor));
  }
  std::ranges::sort(out.tensors, {}, &TensorInfo::name);
  return out;
}

ExampleResult write_example(const ExampleOptions& options, Reporter& reporter) {
  check_dtype(options.dtype);
  const FamilyFile family = chosen_family(options);
  check_out(options.out);
  const Json config = example_config(family, options.config_text, options.config_name, options.own);
  std::vector<ExpectedTensor> tensors = expected_tensors(family, config, options.options);
  std::ranges::sort(tensors, natural_less, &ExpectedTensor::name);
  const std::vector<Shard> shards = make_shards(tensors, options);

  ExampleResult out;
  out.tensors = tensors.size();
  out.files = shards.size();
  for (const Shard& shard : shards) {
    const auto sum = checked_add(out.data_bytes, shard.data_bytes);
    if (!sum) throw Error(ErrorCode::limit, "the example has more than 2^64 bytes");
    out.data_bytes = *sum;
  }
  check_space(options, out.data_bytes);
  make_directories(options.out);
  reporter.started(out.data_bytes, 0);
  Writer writer(options, reporter);
  for (const Shard& shard : shards) out.file_bytes += writer.write(shard);

  const auto small = [&](std::string_view name, std::string_view text) {
    write_small_file(join_path(options.out, name), text);
  };
  if (shards.size() > 1) small("model.safetensors.index.json", index_text(shards, out.data_bytes));
  small("tokenizer_config.json", kTokenizerConfig);
  small("generation_config.json", kGenerationConfig);
  // config.json comes last. A directory without it counts as unfinished.
  small("config.json",
        options.config_text.empty() ? dump_json_pretty(config) : options.config_text);
  return out;
}

}  // namespace hfshard
