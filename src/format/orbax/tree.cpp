#include "format/orbax/tree.h"

#include <algorithm>
#include <optional>
#include <set>
#include <simdjson.h>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

namespace ondemand = simdjson::ondemand;

void check(simdjson::error_code code) {
  if (code == simdjson::SUCCESS) return;
  if (code == simdjson::MEMALLOC) {
    throw Error(ErrorCode::limit, "not enough memory to read the tree of a checkpoint")
        .hint("give the process more memory (ulimit -d, ulimit -v)");
  }
  throw Error(ErrorCode::bad_input,
              fmt::format("malformed JSON: {}", simdjson::error_message(code)));
}

template <typename T>
T take(simdjson::simdjson_result<T> result) {
  T value{};
  check(std::move(result).get(value));
  return value;
}

// The text of a value, which is skipped and not looked at: it is parsed strictly afterwards.
std::string_view text_of(ondemand::value value) {
  switch (take(value.type())) {
    case ondemand::json_type::object:
      return take(take(value.get_object()).raw_json());
    case ondemand::json_type::array:
      return take(take(value.get_array()).raw_json());
    default:
      return value.raw_json_token();
  }
}

// The dotted path of an entry that is an array; nothing for empty nodes and strings.
std::optional<std::string> array_path(const Json& entry) {
  const Json& value = entry.at("value_metadata");
  if (value.at("skip_deserialize").as_bool()) return std::nullopt;
  const std::string& type = value.at("value_type").as_string();
  if (type == "string") return std::nullopt;
  std::vector<std::string> keys;
  for (const Json& key : entry.at("key_metadata").as_array()) {
    const std::uint64_t kind = key.at("key_type").as_uint();
    if (kind != 1 && kind != 2) {
      throw Error(ErrorCode::unsupported, fmt::format("tree key type {} is unknown", kind));
    }
    keys.push_back(key.at("key").as_string());
  }
  std::string path = join(keys, ".");
  if (type != "jax.Array" && type != "np.ndarray" && type != "scalar") {
    throw Error(ErrorCode::unsupported,
                fmt::format("the value type {} is not supported", quote(type)))
        .in_tensor(path);
  }
  return path;
}

// Entry by entry, so that a tree of 100 thousand of them is never held as one Json.
void parse_entries(ondemand::value entries, std::string_view whole, std::string_view file,
                   Tree& tree) {
  for (auto member : take(entries.get_object())) {
    ondemand::field field = take(member);
    take(field.unescaped_key());
    auto path = array_path(parse_json(text_of(field.value()), file, whole));
    if (path) tree.arrays.push_back(std::move(*path));
  }
  std::ranges::sort(tree.arrays);
  const auto twice = std::ranges::adjacent_find(tree.arrays);
  if (twice != tree.arrays.end()) {
    throw Error(ErrorCode::corrupt, "two leaves of the tree have the same path").in_tensor(*twice);
  }
}

// Of the members that are not there, Orbax takes the defaults of Tree.
// Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/tree.py.
void set_storage(std::string_view member, const Json& value, Tree& tree) {
  if (value.is_null()) return;
  if (member == "use_ocdbt") tree.use_ocdbt = value.as_bool();
  if (member == "use_zarr3") tree.use_zarr3 = value.as_bool();
  if (member == "store_array_data_equal_to_fill_value") tree.may_lack = !value.as_bool();
}

// Python writes NaN and Infinity, which JSON lacks, where they stand for no element of an array.
std::string without_nan(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 64);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out += c;
      out += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    bool replaced = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (in_string || replaced || !text.substr(i).starts_with(word)) continue;
      out += '"';
      out += word;
      out += '"';
      i += word.size() - 1;
      replaced = true;
    }
    if (!replaced) out += c;
  }
  return out;
}

bool has_nan(std::string_view text) {
  return text.find("NaN") != std::string_view::npos ||
         text.find("Infinity") != std::string_view::npos;
}

// What the fast parser refuses, with the place that the strict one knows.
Error located(const Error& error, std::string_view text, std::string_view file) {
  try {
    check_json(text, file);
  } catch (const Error& malformed) {
    return malformed.reworded(ErrorCode::corrupt, malformed.sentence());
  }
  return error.reworded(ErrorCode::corrupt, error.sentence()).in_file(file);
}

Tree parse(std::string& text, std::string_view file) {
  Tree out;
  out.may_lack = true;  // unless the member says otherwise
  std::set<std::string> seen;
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);  // the parser reads that far
  ondemand::parser parser;
  auto document = take(parser.iterate(text.data(), text.size(), text.capacity()));
  for (auto member : take(document.get_object())) {
    ondemand::field field = take(member);
    const std::string name(take(field.unescaped_key()));
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::corrupt, fmt::format("key {} is there twice", quote(name)));
    }
    if (name == "tree_metadata") {
      parse_entries(field.value(), text, file, out);
    } else if (name == "custom_metadata") {
      out.custom_metadata = parse_json(text_of(field.value()), file, text);
    } else {
      set_storage(name, parse_json(text_of(field.value()), file, text), out);
    }
  }
  // Past the last value there is no location left.
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    throw Error(ErrorCode::bad_input, "malformed JSON: text behind the closing bracket");
  }
  if (!seen.contains("tree_metadata")) {
    throw Error(ErrorCode::corrupt, "the member \"tree_metadata\" is missing");
  }
  return out;
}

}  // namespace

Json parse_metadata(std::string_view text, std::string_view file) {
  try {
    return has_nan(text) ? parse_json(without_nan(text), file) : parse_json(text, file);
  } catch (const Error& error) {  // as in parse_tree
    throw error.reworded(ErrorCode::corrupt, error.sentence()).in_file(file);
  }
}

Tree parse_tree(std::string text, std::string_view file) {
  if (has_nan(text)) text = without_nan(text);
  try {
    return parse(text, file);
  } catch (Error& error) {
    // What contradicts itself in a checkpoint is damage; the strict parser speaks of inputs.
    if (error.code() == ErrorCode::bad_input) {
      if (!error.place()) throw located(error, text, file);
      throw error.reworded(ErrorCode::corrupt, error.sentence()).in_file(file);
    }
    throw error.in_file(file);
  }
}

}  // namespace hfshard::format::orbax
