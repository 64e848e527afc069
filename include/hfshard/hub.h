#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace hfshard {

/// Where models of the hub come from. The library reads no environment; a program passes on what
/// its own says (the command line: HF_ENDPOINT, HF_TOKEN, HF_HUB_CACHE, HF_HUB_OFFLINE, ...).
struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  /// Sent to hubs only, and over TLS only (loopback excepted). Never printed.
  std::string token;
  std::string token_from;       ///< said when it is refused: "HF_TOKEN"
  std::string cache_directory;  ///< of `models--org--name`; empty: none
  bool offline = false;         ///< no request at all
  std::uint32_t metadata_timeout_seconds = 10;
  std::uint32_t download_timeout_seconds = 10;  ///< without one byte
  std::string ca_file;                          ///< certificates; empty: the system's
  std::string user_agent_suffix;
  std::uint32_t most_connections = 32;
  std::uint32_t retry_ms = 1000;            ///< the shortest wait before another try
  const std::atomic<bool>* stop = nullptr;  ///< RunOptions::stop: ends every wait for the network
  std::uint32_t note_ms = 2000;             ///< who waits so long for an answer is told of it
  /// Told what a person may want to know while something waits; may be empty.
  std::function<void(const std::string&)> note;
};

/// A source as it is typed: a path, or a model of the hub (`org/name`, `hf://org/name@revision`, a
/// page's URL). A path that is there is taken first.
struct SourceName {
  std::string text;
  std::string
      revision;  ///< of a model: branch, tag, `refs/pr/N` or commit; empty: as the name says
  /// A model of the hub is brought into HubOptions::cache_directory first, as `fetch` does, but for
  /// weights of other formats; and then read from there.
  bool keep_files = false;
  std::optional<std::uint64_t> step;  ///< of a place with several; absent: the highest
  std::string items;                  ///< the name of one of a step's trees; empty: the only one
  HubOptions hub;
  SourceName() = default;
  SourceName(std::string path) : text(std::move(path)) {}  // NOLINT(google-explicit-constructor)
  SourceName(const char* path) : text(path) {}             // NOLINT(google-explicit-constructor)
};

}  // namespace hfshard
