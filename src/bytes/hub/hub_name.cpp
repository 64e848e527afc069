#include "bytes/hub/hub_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kScheme = "hf://";
constexpr std::size_t kMaxNameChars = 96;
constexpr std::size_t kMaxRevisionBytes = 255;  // the limit for file names
constexpr std::array<std::string_view, 4> kOtherKinds = {"datasets", "spaces", "kernels",
                                                         "buckets"};
// Pages of the site for a folder or a file of a revision. A commit's page is its listing.
constexpr std::array<std::string_view, 6> kRevisionPages = {"tree",  "resolve", "blob",
                                                            "blame", "raw",     "commit"};

template <std::size_t kCount>
bool is_one_of(std::string_view word, const std::array<std::string_view, kCount>& words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) noexcept { return is_letter(c) || is_digit(c) || c == '_'; }
bool is_unreserved(char c) noexcept { return is_word(c) || c == '.' || c == '-' || c == '~'; }
bool is_lower_hex(char c) noexcept { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

std::string escape(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slashes && c == '/')) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::optional<unsigned> hex_value(char c) noexcept {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  const char low = lower_case(c);
  if (low >= 'a' && low <= 'f') return static_cast<unsigned>(low - 'a') + 10U;
  return std::nullopt;
}

std::optional<std::string> part_problem(std::string_view part, std::string_view what) {
  if (part.empty()) return fmt::format("its {} is empty", what);
  for (const char c : part) {
    if (is_word(c) || c == '-' || c == '.') continue;
    return fmt::format("its {} has {}; letters, digits, '-', '_' and '.' are allowed", what,
                       quote(std::string_view(&c, 1)));
  }
  if (!is_word(part.front()) || !is_word(part.back())) {
    return fmt::format("its {} begins or ends with '-' or '.'", what);
  }
  return std::nullopt;
}

// Compares a host and what precedes it.
bool same_letters(std::string_view a, std::string_view b) noexcept {
  return lower_case(a) == lower_case(b);
}

// Returns the text after a prefix. Empty unless a slash or nothing follows the prefix.
std::optional<std::string_view> below(std::string_view text, std::string_view prefix) {
  while (!prefix.empty() && prefix.back() == '/') prefix.remove_suffix(1);
  if (prefix.empty() || text.size() < prefix.size()) return std::nullopt;
  if (!same_letters(text.substr(0, prefix.size()), prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  if (text.empty() || text.front() == '/' || text.front() == '?' || text.front() == '#') {
    return text;
  }
  return std::nullopt;
}

std::optional<std::string_view> below_a_hub(std::string_view text, std::string_view endpoint) {
  if (const auto rest = below(text, endpoint)) return rest;
  for (const std::string_view host : {"huggingface.co", "www.huggingface.co", "hf.co"}) {
    for (const std::string_view scheme : {"https://", "http://", ""}) {
      if (const auto rest = below(text, fmt::format("{}{}", scheme, host))) return rest;
    }
  }
  return std::nullopt;
}

// Splits a typed text into the parts of a name. Has the text for errors.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  HubName uri(std::string_view body) const {
    body = without_kind(body);
    while (body.ends_with('/')) body.remove_suffix(1);
    HubName out;
    const auto at = body.find('@');
    const auto first = body.find('/');
    if (at != std::string_view::npos && std::ranges::count(body.substr(0, at), '/') <= 1) {
      out.repo = body.substr(0, at);
      revision_and_path(body.substr(at + 1), out);
      if (out.revision.empty()) refuse("the revision after '@' is empty");
    } else {
      const auto second = first == std::string_view::npos ? first : body.find('/', first + 1);
      out.repo = body.substr(0, second);
      if (second != std::string_view::npos) out.path = body.substr(second + 1);
    }
    return checked(std::move(out));
  }

  HubName url(std::string_view rest) const {
    rest = rest.substr(0, rest.find_first_of("?#"));
    while (rest.starts_with('/')) rest.remove_prefix(1);
    while (rest.ends_with('/')) rest.remove_suffix(1);
    if (rest.empty()) refuse("its name is empty");
    rest = without_kind(rest);
    std::vector<std::string> segments = split(rest, '/');
    // The URL of a model without a namespace has the page's word as its second part.
    const bool short_id =
        segments.size() == 1 || (segments.size() > 2 && is_one_of(segments[1], kRevisionPages));
    HubName out;
    out.repo = short_id ? segments[0] : fmt::format("{}/{}", segments[0], segments[1]);
    const std::size_t page = short_id ? 1 : 2;
    if (segments.size() > page) {
      if (!is_one_of(segments[page], kRevisionPages)) {
        refuse(
            fmt::format("{} isn't the page of a model, a folder or a file", quote(segments[page])));
      }
      std::vector<std::string> tail(segments.begin() + static_cast<std::ptrdiff_t>(page) + 1,
                                    segments.end());
      if (!tail.empty()) revision_and_path(join(tail, "/"), out);
      if (!out.path.empty()) out.path = decoded(out.path);
    }
    return checked(std::move(out));
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorCode::usage, fmt::format("{} doesn't name a model: {}", quote(text_), why))
        .hint(
            "pass org/name, org/name@revision, hf://org/name@revision/path or the URL of the "
            "model's page");
  }

  std::string decoded(std::string_view text) const {
    auto out = unescape_percent(text);
    if (!out) refuse("a '%' must have two hex digits after it");
    return std::move(*out);
  }

  // Removes the optional kind `models/`.
  std::string_view without_kind(std::string_view body) const {
    const std::string_view kind = body.substr(0, body.find('/'));
    if (is_one_of(kind, kOtherKinds)) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} is in {}, which don't hold models", quote(text_), kind))
          .hint("hfshard reads only models");
    }
    return kind == "models" && kind.size() < body.size() ? body.substr(kind.size() + 1) : body;
  }

  // `refs/pr/N` and `refs/convert/x` keep their slashes. Revisions encode other slashes.
  void revision_and_path(std::string_view text, HubName& out) const {
    std::size_t end = text.find('/');
    for (const std::string_view prefix : {"refs/pr/", "refs/convert/"}) {
      if (text.starts_with(prefix)) end = text.find('/', prefix.size());
    }
    out.revision = decoded(text.substr(0, end));
    if (end != std::string_view::npos) out.path = text.substr(end + 1);
  }

  HubName checked(HubName name) const {
    if (const auto why = repo_id_problem(name.repo)) refuse(*why);
    if (!name.revision.empty()) {
      if (const auto why = revision_problem(name.revision)) refuse(*why);
    }
    if (!name.path.empty()) {
      if (const auto why = repo_path_problem(name.path)) refuse(*why);
    }
    return name;
  }

  std::string_view text_;
};

}  // namespace

std::optional<std::string> repo_id_problem(std::string_view repo) {
  if (repo.empty()) return "the id is empty";
  if (std::ranges::count(repo, '/') > 1) return "an id has at most one '/'";
  const auto slash = repo.find('/');
  if (slash != std::string_view::npos) {
    if (auto why = part_problem(repo.substr(0, slash), "organisation")) return why;
  }
  const auto name = slash == std::string_view::npos ? repo : repo.substr(slash + 1);
  if (auto why = part_problem(name, "name")) return why;
  if (name.size() > kMaxNameChars) {
    return fmt::format("its name has {} characters, more than {}", name.size(), kMaxNameChars);
  }
  if (repo.find("--") != std::string_view::npos || repo.find("..") != std::string_view::npos) {
    return "an id can't have \"--\" or \"..\"";
  }
  if (repo.ends_with(".git")) return "an id can't end in \".git\"";
  return std::nullopt;
}

std::optional<std::string> revision_problem(std::string_view revision) {
  if (revision.empty()) return "the revision is empty";
  if (revision.size() > kMaxRevisionBytes) {
    return fmt::format("the revision has {} bytes, more than {}", revision.size(),
                       kMaxRevisionBytes);
  }
  for (const char c : revision) {
    if (is_control(c) || std::string_view(" ~^:?*[\\").find(c) != std::string_view::npos) {
      return fmt::format("the revision has {}", quote(std::string_view(&c, 1)));
    }
  }
  if (revision.find("..") != std::string_view::npos) return "the revision has \"..\"";
  for (const std::string& part : split(revision, '/')) {
    if (part.empty()) return "the revision has an empty part between its slashes";
    if (part.front() == '.') return "a part of the revision begins with '.'";
    if (part.ends_with(".lock")) return "a part of the revision ends in \".lock\"";
  }
  return std::nullopt;
}

std::optional<std::string> repo_path_problem(std::string_view path) {
  if (path.empty()) return "the path is empty";
  // A backslash is a separator if Windows reads the same cache.
  std::string slashes(path);
  std::ranges::replace(slashes, '\\', '/');
  for (const char c : slashes) {
    if (is_control(c)) return fmt::format("the path has {}", quote(std::string_view(&c, 1)));
  }
  for (const std::string& part : split(slashes, '/')) {
    if (part.empty()) return "the path has an empty part, or begins or ends with a slash";
    if (part == "." || part == "..") return fmt::format("the path has the part {}", quote(part));
    if (part.size() > 1 && is_letter(part[0]) && part[1] == ':') {
      return fmt::format("the path has the drive {}", quote(part.substr(0, 2)));
    }
  }
  return std::nullopt;
}

bool is_commit(std::string_view text) noexcept {
  return text.size() == 40 && std::ranges::all_of(text, is_lower_hex);
}

bool is_sha256(std::string_view text) noexcept {
  return text.size() == 64 && std::ranges::all_of(text, is_lower_hex);
}

std::string escape_revision(std::string_view revision) { return escape(revision, false); }
std::string escape_path(std::string_view path) { return escape(path, true); }

std::optional<std::string> unescape_percent(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const auto high = hex_value(text[i + 1]);
    const auto low = hex_value(text[i + 2]);
    if (!high || !low) return std::nullopt;
    out.push_back(static_cast<char>(*high * 16 + *low));
    i += 2;
  }
  return out;
}

std::optional<HubName> parse_hub_name(std::string_view text, std::string_view endpoint) {
  const Reader reader(text);
  if (text.size() >= kScheme.size() && same_letters(text.substr(0, kScheme.size()), kScheme)) {
    return reader.uri(text.substr(kScheme.size()));
  }
  if (const auto rest = below_a_hub(text, endpoint)) return reader.url(*rest);
  const auto at = text.find('@');
  HubName out;
  out.repo = text.substr(0, at);
  if (repo_id_problem(out.repo)) return std::nullopt;
  if (at != std::string_view::npos) {
    out.revision = text.substr(at + 1);
    if (revision_problem(out.revision)) return std::nullopt;
  }
  return out;
}

}  // namespace hfshard
