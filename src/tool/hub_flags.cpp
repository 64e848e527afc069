#include "tool/hub_flags.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <optional>
#include <pwd.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "base/typed.h"
#include "tool/environment.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

bool is_true(const std::string& text) {
  const std::string word = lower_case(text);
  return word == "1" || word == "on" || word == "yes" || word == "true";
}

// The first variable that is set decides.
bool first_true(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = variable(name)) return is_true(*value);
  }
  return false;
}

// As Python's expanduser finds it.
std::string home() {
  if (auto home = variable("HOME")) return *std::move(home);
  std::array<char, 4096> text{};
  passwd entry{};
  passwd* user = nullptr;
  (void)::getpwuid_r(::getuid(), &entry, text.data(), text.size(), &user);
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "/";
}

// Expands a leading `~`, `$NAME` and `${NAME}`; keeps names of unset variables.
std::string expanded(const std::string& path) {
  std::string out;
  std::size_t at = 0;
  if (path == "~" || path.starts_with("~/")) {
    out = home();
    at = 1;
  }
  const auto is_word = [](char c) {
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  while (at < path.size()) {
    if (path[at] != '$') {
      out += path[at++];
      continue;
    }
    const bool braces = at + 1 < path.size() && path[at + 1] == '{';
    const std::size_t begin = at + (braces ? 2 : 1);
    std::size_t end = begin;
    while (end < path.size() && is_word(path[end])) ++end;
    const std::size_t after = braces && end < path.size() && path[end] == '}' ? end + 1 : end;
    const auto value = end > begin && braces == (after > end)
                           ? variable(path.substr(begin, end - begin))
                           : std::nullopt;
    out += value ? *value : path.substr(at, std::max(after, at + 1) - at);
    at = std::max(after, at + 1);
  }
  return out;
}

std::string joined_path(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

std::string hf_home() {
  if (const auto set = variable("HF_HOME")) return expanded(*set);
  const std::string cache =
      expanded(variable("XDG_CACHE_HOME").value_or(joined_path(home(), ".cache")));
  return joined_path(cache, "huggingface");
}

std::string hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto set = variable(name)) return expanded(*set);
  }
  return joined_path(hf_home(), "hub");
}

std::string trimmed(std::string text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.erase(0, 1);
  while (!text.empty() && blank(text.back())) text.pop_back();
  return text;
}

// Removes line ends and surrounding spaces. Throws: usage, without the token.
std::string cleaned(std::string token, const std::string& from) {
  std::erase_if(token, [](char c) { return c == '\r' || c == '\n'; });
  token = trimmed(std::move(token));
  const auto odd = [](char c) { return c <= ' ' || c > '~'; };
  if (std::ranges::any_of(token, odd)) {
    throw Error(ErrorCode::usage,
                fmt::format("{} doesn't hold a token: it has spaces or other characters "
                            "that a token never has",
                            from));
  }
  return token;
}

// Returns whether a browser login has expired. Its token is in the token file like any other. The
// Python client stores the expiry next to it and renews the token. Source: huggingface_hub,
// utils/_auth.py.
bool is_expired(const std::string& token, const std::string& stored_tokens) {
  constexpr std::uint64_t kMostBytes = 1U << 20;
  std::string text;
  try {
    text = read_file(stored_tokens, kMostBytes);
  } catch (const Error&) {  // not stored, or unreadable
    return false;
  }
  bool of_token = false;
  constexpr std::uint64_t kNever = UINT64_MAX;
  std::uint64_t ends = kNever;
  const auto expired = [&] {
    return of_token && ends < static_cast<std::uint64_t>(std::time(nullptr));
  };
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("[")) {
      if (expired()) return true;
      of_token = false;
      ends = kNever;
      continue;
    }
    const std::size_t sign = line.find_first_of("=:");
    if (sign == std::string::npos) continue;
    const std::string key = trimmed(line.substr(0, sign));
    const std::string value = trimmed(line.substr(sign + 1));
    if (key == "hf_token") of_token = value == token;
    if (key == "expires_at") ends = parse_whole(value).value_or(kNever);
  }
  return expired();
}

void find_token(HubOptions& options) {
  if (const auto off = variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"); off && is_true(*off)) return;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    const auto set = variable(name);
    if (!set) continue;
    options.token = cleaned(*set, name);
    options.token_from = name;
    if (!options.token.empty()) return;
  }
  const auto named = variable("HF_TOKEN_PATH");
  const std::string path = named ? expanded(*named) : joined_path(hf_home(), "token");
  try {
    constexpr std::uint64_t kMostTokenBytes = 64U << 10;
    options.token = cleaned(read_file(path, kMostTokenBytes), path);
    options.token_from = path;
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (is_expired(options.token, joined_path(folder, "stored_tokens"))) {
      options.token_from += "; it has expired: run hf auth whoami to renew it";
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
}

std::uint32_t seconds(const char* name, std::uint32_t standard) {
  const auto set = variable(name);
  if (!set) return standard;
  constexpr std::size_t kMostDigits = 5;
  if (set->size() > kMostDigits || !std::ranges::all_of(*set, is_digit)) {
    throw Error(ErrorCode::usage,
                fmt::format("{}={} isn't a number of seconds", name, quote(*set)));
  }
  const auto value = static_cast<std::uint32_t>(std::stoul(*set));
  return value == 0 ? standard : value;
}

}  // namespace

Option revision_option(std::string& revision) {
  return {.name = "--revision",
          .to = &revision,
          .value = "REV",
          .group = Group::checkpoint,
          .help = "branch, tag, refs/pr/N or commit of a Hub model",
          .standard = "main"};
}

Option ignore_index_option(bool& ignore_index) {
  return {.name = "--ignore-index",
          .to = &ignore_index,
          .group = Group::checkpoint,
          .help = "ignore the model's index, and read all files whose names fit"};
}

Option keep_files_option(bool& keep_files) {
  return {.name = "--keep-files",
          .to = &keep_files,
          .group = Group::checkpoint,
          .help = "download a Hub model into the cache first, and read it there"};
}

HubOptions hub_options(const Session& session) {
  HubOptions out;
  if (const auto endpoint = variable("HF_ENDPOINT")) out.endpoint = *endpoint;
  out.cache_directory = hub_cache();
  out.offline = first_true({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"});
  out.metadata_timeout_seconds = seconds("HF_HUB_ETAG_TIMEOUT", out.metadata_timeout_seconds);
  out.download_timeout_seconds = seconds("HF_HUB_DOWNLOAD_TIMEOUT", out.download_timeout_seconds);
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}) {
    if (!out.ca_file.empty()) break;
    out.ca_file = expanded(variable(name).value_or(""));
  }
  if (const auto origin = variable("HF_HUB_USER_AGENT_ORIGIN")) {
    out.user_agent_suffix = "origin/" + *origin;
  }
  out.retry_ms = session.hub_retry_ms;
  out.note = [&session](const std::string& text) { print_note(session, "note: " + text); };
  out.find_token = find_token;  // only a source on the Hub needs one
  return out;
}

SourceName source_name(const Session& session, std::string text, std::string revision) {
  SourceName out(std::move(text));
  out.revision = std::move(revision);
  out.hub = hub_options(session);
  return out;
}

}  // namespace hfshard
