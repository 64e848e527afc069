#include "target/orbax/tree.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard::target::orbax {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Splits the text of a JSON object into its members without parsing them, so that a tree of 100
// thousand entries is never held as one Json. It looks at brackets and strings only; each piece is
// parsed strictly afterwards.
class MemberScanner {
 public:
  explicit MemberScanner(std::string_view text) : text_(text) {
    skip_space();
    expect('{');
    skip_space();
  }

  struct Member {
    std::string_view key;
    std::string_view value;
  };

  std::optional<Member> next() {
    if (peek() == '}') {
      ++at_;
      skip_space();
      if (at_ != text_.size()) fail("text behind the closing bracket");
      return std::nullopt;
    }
    if (!first_) {
      expect(',');
      skip_space();
    }
    first_ = false;
    Member out;
    out.key = value();
    expect(':');
    skip_space();
    out.value = value();
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::bad_input, fmt::format("malformed JSON: {}", what));
  }
  char peek() const {
    if (at_ == text_.size()) fail("it ends early");
    return text_[at_];
  }
  void expect(char wanted) {
    if (peek() != wanted) fail(fmt::format("'{}' is missing", wanted));
    ++at_;
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }

  void skip_string() {
    expect('"');
    while (peek() != '"') {
      if (peek() == '\\') ++at_;
      peek();
      ++at_;
    }
    ++at_;
  }

  // One value up to the comma, colon or bracket that ends it.
  std::string_view value() {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    while (true) {
      const char c = peek();
      if (c == '"') {
        skip_string();
        continue;
      }
      if (depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']')) break;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool first_ = true;
};

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

void parse_entries(std::string_view text, std::string_view file, Tree& tree) {
  MemberScanner entries(text);
  while (const auto member = entries.next()) {
    parse_json(member->key, file).as_string();
    auto path = array_path(parse_json(member->value, file));
    if (path) tree.arrays.push_back(std::move(*path));
  }
  std::ranges::sort(tree.arrays);
  const auto twice = std::ranges::adjacent_find(tree.arrays);
  if (twice != tree.arrays.end()) {
    throw Error(ErrorCode::corrupt, "two leaves of the tree have the same path").in_tensor(*twice);
  }
}

void check_storage(std::string_view member, const Json& value) {
  if (member == "use_ocdbt" && !value.is_null() && !value.as_bool()) {
    throw Error(ErrorCode::unsupported, "a checkpoint without OCDBT is not supported");
  }
  if (member == "use_zarr3" && !value.as_bool()) {
    throw Error(ErrorCode::unsupported, "a checkpoint of zarr v2 arrays is not supported");
  }
}

Tree parse(std::string_view text, std::string_view file) {
  Tree out;
  std::set<std::string> seen;
  MemberScanner members(text);
  while (const auto member = members.next()) {
    const std::string name = parse_json(member->key, file).as_string();
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::corrupt, fmt::format("key {} is there twice", quote(name)));
    }
    if (name == "tree_metadata") {
      parse_entries(member->value, file, out);
    } else if (name == "custom_metadata") {
      out.custom_metadata = parse_json(member->value, file);
    } else {
      check_storage(name, parse_json(member->value, file));
    }
  }
  if (!seen.contains("tree_metadata")) {
    throw Error(ErrorCode::corrupt, "the member \"tree_metadata\" is missing");
  }
  if (!seen.contains("use_zarr3")) check_storage("use_zarr3", Json(false));  // Orbax's default
  return out;
}

}  // namespace

Json parse_metadata(std::string_view text, std::string_view file) {
  try {
    return parse_json(text, file);
  } catch (const Error& error) {  // as in parse_tree
    throw Error(ErrorCode::corrupt, error.sentence()).in_file(file);
  }
}

Tree parse_tree(std::string_view text, std::string_view file) {
  try {
    return parse(text, file);
  } catch (Error& error) {
    // What contradicts itself in a checkpoint is damage; the strict parser speaks of inputs.
    if (error.code() == ErrorCode::bad_input) {
      throw Error(ErrorCode::corrupt, error.sentence()).in_file(file);
    }
    throw error.in_file(file);
  }
}

}  // namespace hfshard::target::orbax
