#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

void append_escape(std::string& out, std::uint32_t unit) {
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", unit);
}

void append_string(std::string& out, std::string_view text, bool ascii) {
  out.push_back('"');
  while (!text.empty()) {
    const Utf8Char at = decode_utf8(text);
    const std::string_view bytes = text.substr(0, at.bytes);
    const std::uint32_t code = at.code;
    text.remove_prefix(at.bytes);
    if (code == '"' || code == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(code));
    } else if (code >= 0x20 && code < 0x7f) {
      out.push_back(static_cast<char>(code));
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\t') {
      out += "\\t";
    } else if (!ascii && at.valid && is_shown(code)) {
      out += bytes;
    } else if (code >= 0x10000) {
      append_escape(out, 0xd800 + ((code - 0x10000) >> 10));
      append_escape(out, 0xdc00 + ((code - 0x10000) & 0x3ffU));
    } else {
      append_escape(out, code);
    }
  }
  out.push_back('"');
}

void append_real(std::string& out, double value) {
  HFSHARD_CHECK(std::isfinite(value));
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  const std::string_view digits(buffer.data(),
                                static_cast<std::size_t>(result.ptr - buffer.data()));
  out += digits;
  // Keeps a real a real when it is read back.
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

class Writer {
 public:
  struct Form {
    bool pretty = false;
    bool ascii = true;
    bool strict = false;
  };
  explicit Writer(Form form) : form_(form) {}

  void write(const Json& value, std::size_t depth) {
    if (value.is_null()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_string()) {
      append_string(out_, value.as_string(), form_.ascii);
    } else if (value.is_array()) {
      write_array(value.as_array(), depth);
    } else if (value.is_object()) {
      write_object(value.as_object(), depth);
    } else {
      write_number(value);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void write_number(const Json& value) {
    if (const auto special = value.as_not_finite()) {
      out_ += fmt::format(fmt::runtime(form_.strict ? "\"{}\"" : "{}"), to_string(*special));
    } else if (const LargeInteger* large = value.as_large()) {
      out_ += large->digits;
    } else if (!value.is_integer()) {
      append_real(out_, value.as_double());
    } else if (value.as_double() < 0) {
      out_ += std::to_string(value.as_int());
    } else {
      out_ += std::to_string(value.as_uint());
    }
  }

  void write_array(const Json::Array& array, std::size_t depth) {
    out_.push_back('[');
    bool first = true;
    for (const Json& item : array) {
      next_item(first, depth + 1);
      write(item, depth + 1);
    }
    close(']', array.empty(), depth);
  }

  void write_object(const Json::Object& object, std::size_t depth) {
    out_.push_back('{');
    bool first = true;
    for (const auto& [key, item] : object) {
      next_item(first, depth + 1);
      append_string(out_, key, form_.ascii);
      out_ += form_.pretty ? ": " : ":";
      write(item, depth + 1);
    }
    close('}', object.empty(), depth);
  }

  void next_item(bool& first, std::size_t depth) {
    if (!first) out_.push_back(',');
    first = false;
    new_line(depth);
  }

  void close(char bracket, bool empty, std::size_t depth) {
    if (!empty) new_line(depth);
    out_.push_back(bracket);
  }

  void new_line(std::size_t depth) {
    if (!form_.pretty) return;
    out_.push_back('\n');
    out_.append(depth * 2, ' ');
  }

  Form form_;
  std::string out_;
};

}  // namespace

std::string dump_json(const Json& value) {
  Writer writer({});
  writer.write(value, 0);
  return writer.take();
}

std::string shown_json(const Json& value) {
  Writer writer({.ascii = false, .strict = true});
  writer.write(value, 0);
  return writer.take();
}

std::string dump_json_pretty(const Json& value) {
  Writer writer({.pretty = true});
  writer.write(value, 0);
  return writer.take() + "\n";
}

}  // namespace hfshard
