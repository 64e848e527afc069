#include "bytes/hub/hub_answers.h"

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "bytes/hub/hub_name.h"

namespace hfshard {
namespace {

constexpr std::chrono::seconds kUnknownLife{15 * 60};
// Longer times are cut to this one, since they could overflow in nanoseconds.
constexpr std::chrono::seconds kLongestLife{std::int64_t{3650} * 24 * 3600};

std::optional<std::string> query_value(const std::string& url, std::string_view name) {
  const std::size_t query = url.find('?');
  if (query == std::string::npos) return std::nullopt;
  for (const std::string& part : split(url.substr(query + 1), '&')) {
    if (part.starts_with(name) && part.size() > name.size() && part[name.size()] == '=') {
      return part.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::optional<std::time_t> unix_time(const std::string& text) {
  if (text.empty() || text.size() > 11 || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  return static_cast<std::time_t>(std::stoll(text));
}

// The parsed form of `bytes a-b/T`.
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto number = [&](char until, std::uint64_t& out) {
    std::size_t at = 0;
    out = 0;
    while (at < text.size() && is_digit(text[at]) && at < 19) {
      out = out * 10 + static_cast<std::uint64_t>(text[at++] - '0');
    }
    if (at == 0) return false;
    if (until == 0) return at == text.size();
    if (at == text.size() || text[at] != until) return false;
    text.remove_prefix(at + 1);
    return true;
  };
  ContentRange out;
  if (!number('-', out.first) || !number('/', out.last) || !number(0, out.total)) {
    return std::nullopt;
  }
  return out;
}

TreeFile listed_file(const Json& entry) {
  TreeFile out;
  out.path = entry.at("path").as_string();
  out.size_bytes = entry.at("size").as_uint();
  if (const Json* oid = entry.find("oid"); oid != nullptr && oid->is_string()) {
    out.blob_id = oid->as_string();
  }
  if (const Json* lfs = entry.find("lfs"); lfs != nullptr && lfs->is_object()) {
    out.sha256 = lfs->at("oid").as_string();
    if (!is_sha256(out.sha256)) throw Error(ErrorCode::bad_input, "an oid isn't a sha256");
    out.size_bytes = lfs->at("size").as_uint();
  }
  if (const Json* xet = entry.find("xetHash"); xet != nullptr && xet->is_string()) {
    out.xet_hash = xet->as_string();
    if (!is_sha256(out.xet_hash)) throw Error(ErrorCode::bad_input, "an xetHash isn't a hash");
  }
  return out;
}

}  // namespace

Redirect redirect_of(const std::string& url, const HttpHeaders& headers) {
  const std::string to = headers.find("location").value_or("");
  const auto next = resolve_location(url, to);
  const auto from = origin_of(url);
  const auto origin = next ? origin_of(*next) : std::nullopt;
  if (!from || !origin) {
    return {{}, fmt::format("redirects to {}, which isn't an HTTP address", quote(shown_url(to)))};
  }
  if (from->is_https() && !origin->is_https()) {
    return {{}, fmt::format("redirects from https to {}", quote(shown_url(*next)))};
  }
  return {*next, {}};
}

std::chrono::seconds life_of_url(const std::string& url, const HttpHeaders& headers) {
  std::tm date{};
  std::time_t now = std::time(nullptr);
  if (const auto line = headers.find("date")) {
    const char* const end = strptime(line->c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
    if (end != nullptr) now = timegm(&date);
  }
  const auto until = [&](std::time_t end) {
    return std::clamp(std::chrono::seconds(end - now), -kLongestLife, kLongestLife);
  };
  if (const auto expires = query_value(url, "Expires")) {
    if (const auto at = unix_time(*expires)) return until(*at);
  }
  const auto signed_at = query_value(url, "X-Amz-Date");
  const auto lives = query_value(url, "X-Amz-Expires");
  if (signed_at && lives) {
    std::tm at{};
    const char* const end = strptime(signed_at->c_str(), "%Y%m%dT%H%M%SZ", &at);
    const auto seconds = unix_time(*lives);
    if (end != nullptr && seconds) return until(timegm(&at) + *seconds);
  }
  return kUnknownLife;
}

std::string range_problem(int status, const HttpHeaders& headers, const ByteRange& want,
                          std::uint64_t size_bytes, bool of_hub) {
  const std::string type = headers.find("content-type").value_or("");
  const std::string coding = headers.find("content-encoding").value_or("identity");
  if (coding != "identity") {
    return fmt::format("the server sent compressed bytes ({})", printable(coding));
  }
  if (type.starts_with("multipart/byteranges")) return "the server sent the bytes in several parts";
  if (status == 200) {
    if (type.starts_with("text/html") && !of_hub) {
      return "the server sent an HTML page instead of the bytes";
    }
    if (want.begin != 0 || want.end != size_bytes) {
      return "the server sent the whole file instead of a range";
    }
    const auto length = headers.find("content-length");
    if (length && *length != std::to_string(size_bytes)) {
      return fmt::format("the server sent {} bytes, and the listing says {}", printable(*length),
                         size_bytes);
    }
    return {};
  }
  const auto line = headers.find("content-range");
  const auto range = line ? parse_content_range(*line) : std::nullopt;
  if (!range || range->first != want.begin || range->last + 1 != want.end ||
      range->total != size_bytes) {
    return fmt::format("the server sent another range: {}, not bytes {}-{}/{}",
                       line ? quote(*line) : "it names none", want.begin, want.end - 1, size_bytes);
  }
  return {};
}

std::vector<TreeFile> listed_files(const Json& page) {
  std::vector<TreeFile> out;
  for (const Json& entry : page.as_array()) {
    if (entry.at("type").as_string() == "file") out.push_back(listed_file(entry));
  }
  return out;
}

std::optional<std::string> next_page(const HttpHeaders& headers) {
  for (const std::string& line : headers.all("link")) {
    std::size_t at = 0;
    while ((at = line.find('<', at)) != std::string::npos) {
      const std::size_t end = line.find('>', at);
      if (end == std::string::npos) break;
      const std::size_t more = line.find('<', end);
      const std::string_view rest = std::string_view(line).substr(end, more - end);
      if (rest.find("rel=\"next\"") != std::string_view::npos) {
        return line.substr(at + 1, end - at - 1);
      }
      at = end;
    }
  }
  return std::nullopt;
}

}  // namespace hfshard
