#include "hfshard/error.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard {
namespace {

struct CodeInfo {
  std::string_view name;
  int exit_status;
};

// In the order of ErrorCode.
constexpr std::array<CodeInfo, 12> kCodes{{{"usage", 2},
                                           {"bad_input", 3},
                                           {"corrupt", 3},
                                           {"unsupported", 3},
                                           {"not_found", 3},
                                           {"conflict", 3},
                                           {"limit", 3},
                                           {"io", 4},
                                           {"network", 4},
                                           {"internal", 70},
                                           {"cancelled", 130},
                                           {"access", 3}}};
constexpr CodeInfo kUnknownCode{"internal", 70};

const CodeInfo& info_of(ErrorCode code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < kCodes.size() ? kCodes[index] : kUnknownCode;
}

// __FILE__ is absolute in most builds; only the part from src/ on means something to a reader.
std::string_view within_project(std::string_view path) {
  for (const std::string_view root : {"/src/", "/include/", "/tests/"}) {
    const auto at = path.rfind(root);
    if (at != std::string_view::npos) return path.substr(at + 1);
  }
  return path;
}

// Returns the facts of one error alone, to change them: copies of an error share theirs until then.
template <typename Facts>
Facts& own(std::shared_ptr<Facts>& facts) {
  if (facts.use_count() > 1) facts = std::make_shared<Facts>(*facts);
  return *facts;
}

void append_fact(std::string& out, std::string_view label, std::string_view value) {
  fmt::format_to(std::back_inserter(out), "\n  {:<8}{}", label, value);
}

}  // namespace

struct Error::Facts {
  ErrorCode code = ErrorCode::internal;
  std::string sentence;
  std::string file;
  std::string tensor;
  std::string rule;
  std::string hint;
  std::optional<ByteRange> range;
  std::uint64_t total_bytes = 0;
  std::optional<TextPlace> place;
  const char* source_file = "";
  int source_line = 0;
};

std::string_view to_string(ErrorCode code) noexcept { return info_of(code).name; }

int exit_status(ErrorCode code) noexcept { return info_of(code).exit_status; }

Error::Error(ErrorCode code, std::string sentence, const char* source_file, int source_line)
    : facts_(std::make_shared<Facts>()) {
  facts_->code = code;
  facts_->sentence = std::move(sentence);
  facts_->source_file = source_file;
  facts_->source_line = source_line;
}

Error& Error::in_file(std::string_view file_or_url) {
  if (facts_->file.empty()) own(facts_).file = file_or_url;
  return *this;
}

Error& Error::in_tensor(std::string_view tensor) {
  if (facts_->tensor.empty()) own(facts_).tensor = tensor;
  return *this;
}

Error& Error::at(ByteRange range, std::uint64_t total_bytes) {
  if (facts_->range) return *this;
  Facts& facts = own(facts_);
  facts.range = range;
  facts.total_bytes = total_bytes;
  return *this;
}

Error& Error::on_line(TextPlace place) {
  if (!facts_->place) own(facts_).place = place;
  return *this;
}

Error& Error::by_rule(std::string_view rule) {
  if (facts_->rule.empty()) own(facts_).rule = rule;
  return *this;
}

Error& Error::hint(std::string_view text) {
  if (facts_->hint.empty()) own(facts_).hint = text;
  return *this;
}

Error Error::reworded(ErrorCode code, std::string sentence) const {
  Error out(*this);
  Facts& facts = own(out.facts_);
  facts.code = code;
  facts.sentence = std::move(sentence);
  return out;
}

Error Error::rehinted(std::string hint) const {
  Error out(*this);
  own(out.facts_).hint = std::move(hint);
  return out;
}

ErrorCode Error::code() const noexcept { return facts_->code; }
const std::string& Error::sentence() const noexcept { return facts_->sentence; }
const std::string& Error::file() const noexcept { return facts_->file; }
const std::string& Error::tensor() const noexcept { return facts_->tensor; }
const std::string& Error::rule() const noexcept { return facts_->rule; }
const std::string& Error::hint_text() const noexcept { return facts_->hint; }
std::optional<ByteRange> Error::range() const noexcept { return facts_->range; }
std::uint64_t Error::total_bytes() const noexcept { return facts_->total_bytes; }
std::optional<TextPlace> Error::place() const noexcept { return facts_->place; }
const char* Error::what() const noexcept { return facts_->sentence.c_str(); }

std::string Error::format() const {
  const Facts& facts = *facts_;
  std::string out = fmt::format("error [{}]: {}", to_string(facts.code), printable(facts.sentence));
  if (!facts.file.empty()) append_fact(out, "file", printable(facts.file));
  if (facts.place) {
    append_fact(out, "line", fmt::format("{}, column {}", facts.place->line, facts.place->column));
  }
  if (!facts.tensor.empty()) append_fact(out, "tensor", quote(facts.tensor));
  if (facts.range) {
    append_fact(out, "range",
                fmt::format("[{}, {}) of {} bytes", facts.range->begin, facts.range->end,
                            facts.total_bytes));
  }
  if (!facts.rule.empty()) append_fact(out, "rule", printable(facts.rule));
  if (!facts.hint.empty()) append_fact(out, "hint", printable(facts.hint));
  if (facts.code == ErrorCode::internal) {
    append_fact(out, "thrown",
                fmt::format("{}:{}", within_project(facts.source_file), facts.source_line));
  }
  return out;
}

void check_failed(const char* condition, const char* source_file, int source_line) {
  throw Error(ErrorCode::internal, fmt::format("check failed: {}", condition), source_file,
              source_line)
      .hint("this is a bug in hfshard; please report it with this message");
}

}  // namespace hfshard
