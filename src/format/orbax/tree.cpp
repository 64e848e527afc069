#include "format/orbax/tree.h"

#include <algorithm>
#include <optional>
#include <set>
#include <simdjson.h>
#include <utility>

#include <fmt/format.h>

#include "base/json_key.h"
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

// Returns the text of a value without looking at it. The strict parser parses it later.
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

constexpr std::uint64_t kIndexKey = 1;  // Orbax's KeyType.SEQUENCE
constexpr std::uint64_t kDictKey = 2;

TreeEntry::Kind kind_of(bool is_empty, const std::string& type, const std::string& path) {
  if (is_empty) return TreeEntry::Kind::empty;
  if (type == "string") return TreeEntry::Kind::text;
  if (type == "jax.Array" || type == "np.ndarray" || type == "scalar")
    return TreeEntry::Kind::array;
  throw Error(ErrorCode::unsupported,
              fmt::format("the value type {} is not supported", quote(type)))
      .in_tensor(path);
}

TreeEntry entry_of(const Json& json) {
  TreeEntry out;
  for (const Json& key : json.at("key_metadata").as_array()) {
    const std::uint64_t kind = key.at("key_type").as_uint();
    if (kind != kIndexKey && kind != kDictKey) {
      throw Error(ErrorCode::unsupported, fmt::format("tree key type {} is unknown", kind));
    }
    out.add_key(key.at("key").as_string(), kind == kIndexKey);
  }
  const Json& value = json.at("value_metadata");
  out.type = value.at("value_type").as_string();
  out.kind = kind_of(value.at("skip_deserialize").as_bool(), out.type, out.path);
  return out;
}

// Parses entry by entry, so a tree of 100 thousand entries never is one Json.
void parse_entries(ondemand::value entries, std::string_view whole, std::string_view file,
                   Tree& tree) {
  for (auto member : take(entries.get_object())) {
    ondemand::field field = take(member);
    take(unescaped_key(field));
    tree.entries.push_back(entry_of(parse_json(text_of(field.value()), file, whole)));
    const TreeEntry& entry = tree.entries.back();
    if (entry.kind == TreeEntry::Kind::array) tree.arrays.push_back(entry.path);
  }
  std::ranges::sort(tree.arrays);
  const auto twice = std::ranges::adjacent_find(tree.arrays);
  if (twice != tree.arrays.end()) {
    throw Error(ErrorCode::corrupt, "two leaves of the tree have the same path").in_tensor(*twice);
  }
}

// Missing members have the defaults of Tree, as in Orbax.
// Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/tree.py.
void set_storage(std::string_view member, const Json& value, Tree& tree) {
  if (value.is_null()) return;
  if (member == "use_ocdbt") tree.use_ocdbt = value.as_bool();
  if (member == "value_metadata_tree") tree.rich_types = value.as_string();
  if (member == "use_zarr3") tree.use_zarr3 = value.as_bool();
  if (member == "store_array_data_equal_to_fill_value") tree.may_lack = !value.as_bool();
}

// Returns a failure of the fast parser with the place that the strict parser finds.
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
    const std::string name(take(unescaped_key(field)));
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::corrupt, fmt::format("key {} appears twice", quote(name)));
    }
    if (name == "tree_metadata") {
      parse_entries(field.value(), text, file, out);
    } else if (name == "custom_metadata") {
      out.custom_metadata = parse_json(text_of(field.value()), file, text);
    } else {
      set_storage(name, parse_json(text_of(field.value()), file, text), out);
    }
  }
  // After the last value the document has no location.
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
    return parse_json(text, file);
  } catch (const Error& error) {  // as in parse_tree
    throw error.reworded(ErrorCode::corrupt, error.sentence()).in_file(file);
  }
}

Tree parse_tree(std::string text, std::string_view file) {
  text = without_not_finite(std::move(text));
  try {
    return parse(text, file);
  } catch (Error& error) {
    // A malformed checkpoint is damaged. The strict parser reports bad input.
    if (error.code() == ErrorCode::bad_input) {
      if (!error.place()) throw located(error, text, file);
      throw error.reworded(ErrorCode::corrupt, error.sentence()).in_file(file);
    }
    throw error.in_file(file);
  }
}

}  // namespace hfshard::format::orbax
