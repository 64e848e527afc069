// Fuzzes an answer from a hub or a data host, as `URL
// NAME: VALUE
// ...
// BODY`. It covers redirects, ranges, the lifetime of the URL, the time of the next try, listings
// and refusals.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/text.h"
#include "bytes/hub/hub_answers.h"
#include "bytes/hub/hub_client.h"
#include "bytes/hub/hub_name.h"
#include "fuzz/fuzz_target.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

const std::string kEndpoint = "http://127.0.0.1:1";

const HubClient& hub_with_token() {
  static const HubClient kClient([] {
    HubOptions options;
    options.endpoint = kEndpoint;
    options.token = "hf_hidden";
    return options;
  }());
  return kClient;
}

// Takes the text up to a character. Drops the character.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view out = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return out;
}

// Returns whether a URL begins with an origin that may see the token.
bool is_of_hub(std::string url) {
  for (char& c : url) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  return std::ranges::any_of(
      std::initializer_list<std::string>{kEndpoint, "https://huggingface.co", "https://hf.co"},
      [&](std::string origin) {
        if (url.starts_with(origin + ":443/")) return true;
        return url.starts_with(origin + "/") || url.starts_with(origin + "?");
      });
}

void follow(const std::string& url, const HttpHeaders& headers) {
  const Redirect next = redirect_of(url, headers);
  HFSHARD_CHECK(next.url.empty() != next.problem.empty());
  if (next.url.empty()) return;
  const auto from = origin_of(url);
  const auto to = origin_of(next.url);
  HFSHARD_CHECK(from && to);
  HFSHARD_CHECK(to->is_https() || !from->is_https());
  HFSHARD_CHECK(hub_with_token().headers_for(next.url).empty() || is_of_hub(next.url));
}

void look_at_range(const HttpHeaders& headers) {
  for (const ByteRange& want : {ByteRange{0, 20}, ByteRange{5, 10}}) {
    for (const bool of_hub : {false, true}) {
      const bool whole = want.begin == 0;
      HFSHARD_CHECK(whole || !range_problem(200, headers, want, 20, of_hub).empty());
      const bool good = range_problem(206, headers, want, 20, of_hub).empty();
      HFSHARD_CHECK(!good || headers.find("content-range").has_value());
    }
  }
}

void list(const std::string& url, const HttpHeaders& headers, const std::string& body) {
  if (const auto next = next_page(headers)) resolve_location(url, *next);
  for (const TreeFile& file : listed_files(parse_json(body, "body"))) {
    if (repo_path_problem(file.path)) continue;
    const std::string path = escape_path(file.path);
    HFSHARD_CHECK(unescape_percent(path) == file.path);
    const auto asked = resolve_location(kEndpoint, "/org/model/resolve/main/" + path);
    HFSHARD_CHECK(asked && origin_of(*asked) == origin_of(kEndpoint));
    HFSHARD_CHECK(asked->ends_with("/org/model/resolve/main/" + path));
  }
}

}  // namespace

void fuzz_hub_answer(std::string_view bytes) {
  const std::string url(take_until(bytes, '\n'));
  HubAnswer answer;
  while (!bytes.empty()) {
    std::string_view line = take_until(bytes, '\n');
    if (line.empty()) break;
    const std::string_view name = take_until(line, ':');
    answer.headers.add(name, line.substr(std::min(line.find_first_not_of(' '), line.size())));
  }
  answer.body = std::string(bytes);
  answer.url = url;
  follow(url, answer.headers);
  look_at_range(answer.headers);
  // A place is kept until then.
  const auto until = std::chrono::steady_clock::now() + life_of_url(url, answer.headers);
  HFSHARD_CHECK(until.time_since_epoch() > -std::chrono::hours(100'000));
  const auto wait = retry_wait(7, &answer.headers, 1000);
  HFSHARD_CHECK(wait.count() >= 0 && wait <= std::chrono::minutes(6));
  for (const int status : {400, 401, 403, 404}) {
    answer.status = status;
    HFSHARD_CHECK(hub_with_token().refusal(answer, "org/model", "main", "config.json").code() !=
                  ErrorCode::internal);
  }
  list(url, answer.headers, answer.body);
}

}  // namespace hfshard
