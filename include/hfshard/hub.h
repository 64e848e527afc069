#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace hfshard {

/// Access to the Hub. The library doesn't read the environment. The command line fills this from
/// HF_ENDPOINT, HF_TOKEN, HF_HUB_CACHE, HF_HUB_OFFLINE and others.
struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  /// Sent to the Hub only, and only over TLS or to this machine. Never printed.
  std::string token;
  std::string token_from;  ///< for errors: "HF_TOKEN"
  /// Sets `token` and `token_from` before the first request. May be empty.
  std::function<void(HubOptions&)> find_token;
  std::string cache_directory;  ///< contains `models--org--name`, or empty
  bool offline = false;         ///< make no requests
  std::uint32_t metadata_timeout_seconds = 10;
  std::uint32_t download_timeout_seconds = 10;  ///< below 1 KiB/s
  std::string ca_file;                          ///< certificates, or empty
  std::string user_agent_suffix;
  std::uint32_t most_connections = 32;
  std::uint32_t retry_ms = 1000;            ///< minimum wait before a retry
  const std::atomic<bool>* stop = nullptr;  ///< RunOptions::stop, ends all waits
  std::uint32_t note_ms = 2000;             ///< wait before `note` is called
  /// Receives notes for a person while a request waits. May be empty.
  std::function<void(const std::string&)> note;
};

/// A source as the user types it: a path, or a Hub model (`org/name`, `hf://org/name@revision`, a
/// page's URL). An existing path wins.
struct SourceName {
  std::string text;
  /// Branch, tag, `refs/pr/N` or commit of a model. If empty, the name decides.
  std::string revision;
  /// Download a Hub model into HubOptions::cache_directory first, as `fetch` does, without weights
  /// in other formats.
  bool keep_files = false;
  std::optional<std::uint64_t> step;  ///< the highest if absent
  std::string items;                  ///< one of a step's trees, or empty
  bool ignore_index = false;          ///< FileGlobs::ignore_index
  HubOptions hub;
  SourceName() = default;
  SourceName(std::string path) : text(std::move(path)) {}  // NOLINT(google-explicit-constructor)
  SourceName(const char* path) : text(path) {}             // NOLINT(google-explicit-constructor)
};

}  // namespace hfshard
