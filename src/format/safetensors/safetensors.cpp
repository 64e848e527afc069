#include "format/safetensors/safetensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <simdjson.h>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/json_key.h"
#include "base/text.h"
#include "format/unreadable.h"
#include "format/weight_files.h"

namespace hfshard::format::safetensors {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kZipArchive = "PK\x03\x04";
constexpr std::string_view kPartialHint =
    "compare the file's size with the one on the Hub; the download may be partial";

Error bad_header(std::string sentence, const char* source_file = __builtin_FILE(),
                 int source_line = __builtin_LINE()) {
  return {ErrorCode::bad_input, std::move(sentence), source_file, source_line};
}

// Turns a reader's code into an error. Text that the JSON grammar forbids is damage. The rest is a
// value of the wrong kind.
void check(simdjson::error_code code, std::string_view wanted) {
  switch (code) {
    case simdjson::SUCCESS:
      return;
    case simdjson::INCORRECT_TYPE:
    case simdjson::NUMBER_ERROR:
    case simdjson::NUMBER_OUT_OF_RANGE:
      throw bad_header(fmt::format("the header needs {} here", wanted));
    case simdjson::MEMALLOC:
      throw Error(ErrorCode::limit, "not enough memory to read the header")
          .hint("give the process more memory (ulimit -d, ulimit -v)");
    default:
      throw Error(ErrorCode::corrupt,
                  fmt::format("the header is not valid JSON: {}", simdjson::error_message(code)));
  }
}

template <typename T>
T take(simdjson::simdjson_result<T> result, std::string_view wanted) {
  T value{};
  check(std::move(result).get(value), wanted);
  return value;
}

// The reader accepts an escaped lone low surrogate, which is invalid in UTF-8.
std::string_view take_text(simdjson::simdjson_result<std::string_view> result,
                           std::string_view wanted) {
  const std::string_view text = take(result, wanted);
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    throw Error(ErrorCode::corrupt, "the header has a lone surrogate in a string");
  }
  return text;
}

std::uint64_t take_size(simdjson::simdjson_result<ondemand::value> value, std::string_view wanted) {
  return take(take(value, wanted).get_uint64(), wanted);
}

Shape take_shape(ondemand::value value) {
  Shape shape;
  for (auto item : take(value.get_array(), "an array of sizes")) {
    shape.push_back(take_size(item, "a size of zero or more"));
  }
  return shape;
}

ByteRange take_offsets(ondemand::value value) {
  std::array<std::uint64_t, 2> offsets{};
  std::size_t count = 0;
  for (auto item : take(value.get_array(), "an array of two offsets")) {
    if (count == offsets.size()) throw bad_header("data_offsets has more than two numbers");
    offsets[count++] = take_size(item, "an offset of zero or more");
  }
  if (count != offsets.size()) throw bad_header("data_offsets has fewer than two numbers");
  return {offsets[0], offsets[1]};
}

template <typename T>
void fill_once(std::optional<T>& slot, T value, std::string_view key) {
  if (slot) throw bad_header(fmt::format("the member {} appears twice", quote(key)));
  slot = value;
}

struct Entry {
  std::string_view dtype;
  Shape shape;
  ByteRange offsets;  // from the start of the data
};

Entry take_entry(ondemand::value value) {
  std::optional<std::string_view> dtype;
  std::optional<Shape> shape;
  std::optional<ByteRange> offsets;
  for (auto member : take(value.get_object(), "the description of a tensor")) {
    ondemand::field field = take(member, "a member");
    const std::string_view key = take_text(unescaped_key(field), "a name");
    if (key == "dtype") {
      fill_once(dtype, take_text(field.value().get_string(), "the name of a dtype"), key);
    } else if (key == "shape") {
      fill_once(shape, take_shape(field.value()), key);
    } else if (key == "data_offsets") {
      fill_once(offsets, take_offsets(field.value()), key);
    } else {
      throw bad_header(fmt::format("the member {} is unknown", quote(key)));
    }
  }
  if (!dtype) throw bad_header("the member \"dtype\" is missing");
  if (!shape) throw bad_header("the member \"shape\" is missing");
  if (!offsets) throw bad_header("the member \"data_offsets\" is missing");
  return {*dtype, *shape, *offsets};
}

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Returns all but "format", which is for loaders. They all take "pt".
Metadata read_metadata(ondemand::value value) {
  Metadata out;
  std::unordered_set<std::string_view> keys;
  for (auto member : take(value.get_object(), "an object of strings as __metadata__")) {
    ondemand::field field = take(member, "a member");
    const std::string_view key = take_text(unescaped_key(field), "a name");
    if (!keys.insert(key).second) {
      throw bad_header(fmt::format("the metadata key {} appears twice", quote(key)));
    }
    const std::string_view text = take_text(field.value().get_string(), "a string in __metadata__");
    if (key != "format") out.emplace_back(key, text);
  }
  std::ranges::sort(out);
  return out;
}

// Tells names of stored tensors from notes of other programs or people.
void sort_out(Metadata& metadata, const std::vector<TensorInfo>& tensors,
              SafetensorsHeader& header) {
  if (metadata.empty()) return;
  std::unordered_set<std::string_view> names;
  for (const TensorInfo& tensor : tensors) names.insert(tensor.name);
  for (auto& [key, text] : metadata) {
    if (names.contains(text) && !names.contains(key)) {
      header.shared.push_back({std::move(key), std::move(text)});
    } else {
      header.metadata.push_back(std::move(key));
    }
  }
}

// Makes offsets absolute. If a hostile header overflows, they become the largest number, past any
// file.
// An entry with an unknown dtype gets no dtype here; `known` says so.
TensorInfo place_entry(std::string_view name, const Entry& entry, std::uint64_t data_begin,
                       bool& known) {
  const auto begin = checked_add(data_begin, entry.offsets.begin);
  if (entry.offsets.end < entry.offsets.begin) {
    throw Error(ErrorCode::corrupt, fmt::format("data_offsets [{}, {}] end before they begin",
                                                entry.offsets.begin, entry.offsets.end));
  }
  if (!begin || !checked_add(data_begin, entry.offsets.end)) {
    throw Error(ErrorCode::corrupt, fmt::format("data_offsets [{}, {}] don't fit in 64 bits",
                                                entry.offsets.begin, entry.offsets.end));
  }
  TensorInfo out;
  out.name = name;
  out.shape = entry.shape;
  out.begin_bytes = *begin;
  out.size_bytes = entry.offsets.end - entry.offsets.begin;
  const std::optional<DType> dtype = dtype_from_safetensors(entry.dtype);
  known = dtype.has_value();
  if (known) out.dtype = *dtype;
  return out;
}

// Throws: unsupported, if the globs don't leave the tensor out.
void leave_out(const Entry& entry, const std::vector<std::string>& without, TensorInfo& tensor,
               SafetensorsHeader& header) {
  header.unreadable.push_back(accept_unreadable(
      without, tensor.name,
      Error(ErrorCode::unsupported, fmt::format("the dtype {} is unknown", quote(entry.dtype)))));
  tensor.dtype = DType::u8;
  tensor.shape = Shape{tensor.size_bytes};
}

// Returns the tensors, and also those of header.unreadable. They have the dtype u8 and one axis, so
// that their bytes count.
std::vector<TensorInfo> read_entries(ondemand::document& document,
                                     const std::vector<std::string>& without,
                                     SafetensorsHeader& header) {
  std::vector<TensorInfo> tensors;
  Metadata metadata;
  std::unordered_set<std::string_view> names;
  for (auto member : take(document.get_object(), "an object")) {
    ondemand::field field = take(member, "a member");
    const std::string_view name = take_text(unescaped_key(field), "a name");
    try {
      if (!names.insert(name).second) {
        throw bad_header(fmt::format("the key {} appears twice", quote(name)));
      }
      if (name == kMetadataKey) {
        metadata = read_metadata(field.value());
      } else {
        const Entry entry = take_entry(field.value());
        bool known = true;
        tensors.push_back(place_entry(name, entry, header.data_begin_bytes, known));
        if (!known) leave_out(entry, without, tensors.back(), header);
      }
    } catch (Error& error) {  // only this loop knows the tensor
      if (name != kMetadataKey) error.in_tensor(name);
      throw;
    }
  }
  // After the last value the document has no location.
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    throw Error(ErrorCode::corrupt, "the header continues after its JSON object");
  }
  sort_out(metadata, tensors, header);
  return tensors;
}

// Throws the grammar error of a header's JSON, if that is why the reader refused it.
void check_grammar(std::string_view text, const Error& refused) {
  try {
    check_json(text, "");
  } catch (const Error& malformed) {
    const std::uint64_t at = kLengthBytes + malformed.range()->begin;
    constexpr std::string_view kSaidAlready = "malformed JSON: ";
    std::string_view what = malformed.sentence();
    if (what.starts_with(kSaidAlready)) what.remove_prefix(kSaidAlready.size());
    Error error(ErrorCode::corrupt, fmt::format("the header is not valid JSON: {}", what));
    error.in_tensor(refused.tensor()).at({at, at + 1}, kLengthBytes + text.size());
    throw error.on_line(*malformed.place());
  }
}

// Parses the header at bytes 8 .. 8 + length of the mapped file. The reader needs some readable
// bytes after it.
void parse_json_header(std::span<const std::byte> mapped, std::uint64_t length,
                       const std::vector<std::string>& without, SafetensorsHeader& header) {
  const std::uint64_t data_begin = header.data_begin_bytes;
  const std::string_view text = as_text(mapped.subspan(kLengthBytes));
  if (!text.starts_with('{')) {
    throw Error(ErrorCode::corrupt, "the header doesn't begin with '{'")
        .at({kLengthBytes, kLengthBytes + 1}, data_begin)
        .hint("this isn't a safetensors file, or its beginning is damaged");
  }
  simdjson::padded_string copy;
  simdjson::padded_string_view view(text.data(), length, text.size());
  if (text.size() - length < simdjson::SIMDJSON_PADDING) {
    copy = simdjson::padded_string(text.data(), length);
    view = copy;
  }
  ondemand::parser parser;
  ondemand::document document;
  try {
    check(parser.iterate(view).get(document), "an object");
    header.tensors = read_entries(document, without, header);
  } catch (const Error& error) {  // this parser doesn't know the place
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::bad_input) throw;
    check_grammar(text.substr(0, length), error);
    throw;
  }
}

// Checks shapes against ranges, and that the ranges cover [data_begin, file_bytes) once.
void check_ranges(std::vector<TensorInfo>& tensors, std::uint64_t data_begin,
                  std::uint64_t file_bytes, bool despite_loss) {
  std::ranges::sort(tensors, [](const TensorInfo& a, const TensorInfo& b) {
    if (a.begin_bytes != b.begin_bytes) return a.begin_bytes < b.begin_bytes;
    if (a.size_bytes != b.size_bytes) return a.size_bytes < b.size_bytes;
    return a.name < b.name;
  });
  std::uint64_t covered = data_begin;
  for (const TensorInfo& tensor : tensors) {
    const auto refuse = [&](std::string sentence, std::string_view hint) {
      throw Error(ErrorCode::corrupt, std::move(sentence))
          .in_tensor(tensor.name)
          .at(tensor.range(), file_bytes)
          .hint(hint);
    };
    if (!despite_loss && !in_range(tensor.begin_bytes, tensor.size_bytes, file_bytes)) {
      refuse("tensor data passes the end of the file", kPartialHint);
    }
    if (tensor.begin_bytes < covered) {
      refuse(fmt::format("tensor data overlap the tensor before, which ends at {}", covered), "");
    }
    if (tensor.begin_bytes > covered) {
      refuse(fmt::format("bytes [{}, {}) before the tensor don't belong to a tensor", covered,
                         tensor.begin_bytes),
             "");
    }
    covered += tensor.size_bytes;
  }
  if (covered > file_bytes ? !despite_loss : covered != file_bytes) {
    throw Error(ErrorCode::corrupt, fmt::format("the file has {} bytes but its header describes {}",
                                                file_bytes, covered))
        .at({covered, file_bytes}, file_bytes)
        .hint(kPartialHint);
  }
}

void check_sizes(const std::vector<TensorInfo>& tensors, std::uint64_t file_bytes) {
  for (const TensorInfo& tensor : tensors) {
    try {
      const std::uint64_t wanted = packed_bytes(tensor.dtype, tensor.shape.numel());
      if (wanted == tensor.size_bytes) continue;
      throw Error(
          ErrorCode::corrupt,
          fmt::format("{} of {} needs {} bytes, and the header gives it {}",
                      to_string(tensor.shape), to_string(tensor.dtype), wanted, tensor.size_bytes))
          .at(tensor.range(), file_bytes);
    } catch (Error& error) {  // only this loop knows the tensor
      error.in_tensor(tensor.name);
      throw;
    }
  }
}

// Reads and checks the length field. Returns the header's length.
std::uint64_t read_length(const Source& source) {
  const std::uint64_t file_bytes = source.size_bytes();
  if (file_bytes == 0) {
    throw Error(ErrorCode::corrupt, "the file is empty").at({0, 8}, 0).hint(kPartialHint);
  }
  std::array<std::byte, 64> start{};
  const std::span<std::byte> begin(start.data(), std::min<std::uint64_t>(64, file_bytes));
  source.read_at(0, begin);
  if (as_text(begin).starts_with(kLfsPointer)) {
    throw bad_header("the file is a git-lfs pointer, not the data").hint("run: git lfs pull");
  }
  if (file_bytes < kLengthBytes) {
    throw Error(ErrorCode::corrupt, "the file is too short for a header")
        .at({0, kLengthBytes}, file_bytes)
        .hint(kPartialHint);
  }
  const auto length = load_le<std::uint64_t>(start.data());
  if (length > kMaxHeaderBytes && as_text(begin).starts_with(kZipArchive)) {
    throw bad_header("the file is a zip archive, as torch.save writes one, not safetensors")
        .hint("if torch.save wrote it, rename it to end in .bin");
  }
  if (length > kMaxHeaderBytes) {
    throw Error(ErrorCode::corrupt, fmt::format("the header claims {} bytes, above the limit of {}",
                                                length, kMaxHeaderBytes))
        .at({0, kLengthBytes}, file_bytes)
        .hint("this isn't a safetensors file, or its beginning is damaged");
  }
  if (!in_range(kLengthBytes, length, file_bytes)) {
    throw Error(ErrorCode::corrupt, "the header passes the end of the file")
        .at({kLengthBytes, kLengthBytes + length}, file_bytes)
        .hint(kPartialHint);
  }
  return length;
}

}  // namespace

SafetensorsHeader parse_safetensors(const StorePath& path, bool despite_loss,
                                    const std::vector<std::string>& without) {
  try {
    const std::unique_ptr<SourceFile> file = path.open();
    const SourceFile& source = *file;
    const std::uint64_t file_bytes = source.size_bytes();
    const std::uint64_t length = read_length(source);
    SafetensorsHeader header;
    header.identity = source.identity();
    header.data_begin_bytes = kLengthBytes + length;
    const std::uint64_t padded = header.data_begin_bytes + simdjson::SIMDJSON_PADDING;
    // A copy, not a mapping: the parser reads some bytes twice and needs them unchanged.
    const MappedBytes text = copy_range(source, 0, std::min(padded, file_bytes));
    parse_json_header(text.bytes(), length, without, header);
    check_ranges(header.tensors, header.data_begin_bytes, file_bytes, despite_loss);
    check_sizes(header.tensors, file_bytes);
    std::unordered_set<std::string_view> unreadable;
    for (const UnreadableArray& array : header.unreadable) unreadable.insert(array.name);
    std::erase_if(header.tensors,
                  [&](const TensorInfo& tensor) { return unreadable.contains(tensor.name); });
    header.sha256 = to_hex(Sha256().update(text.bytes().first(header.data_begin_bytes)).finish());
    source.check_unchanged();
    return header;
  } catch (Error& error) {  // only here is the file known
    error.in_file(path.text());
    throw;
  }
}

}  // namespace hfshard::format::safetensors
