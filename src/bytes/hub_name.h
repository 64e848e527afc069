#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hfshard {

/// What a person calls a model of the Hub, or a file or folder of it.
struct HubName {
  std::string repo;      ///< `org/name`, or `name` of the few that are in no namespace
  std::string revision;  ///< branch, tag, `refs/pr/N` or commit; empty: not said
  std::string path;      ///< below the repository; empty: all of it
  friend bool operator==(const HubName&, const HubName&) = default;
};

inline constexpr std::string_view kHubUrl = "https://huggingface.co";
inline constexpr std::string_view kDefaultRevision = "main";

/// Reads `org/name`, `name`, either with `@revision`, `hf://[models/]org/name[@revision][/path]`,
/// and the URL of a model, a folder or a file below `endpoint`, huggingface.co or hf.co.
/// Nothing if the text is none of these. A plain name may also be that of a local directory: who
/// calls looks there first.
/// Throws: usage (a URL or an hf:// name that breaks a rule), unsupported (a data set, a space).
std::optional<HubName> parse_hub_name(std::string_view text, std::string_view endpoint);

/// Why a text is no id of a repository, as the end of a sentence; nothing if it is one.
/// Source: huggingface_hub, utils/_validators.py, with ASCII letters only.
std::optional<std::string> repo_id_problem(std::string_view repo);
/// The same of a revision, which names a file in the cache: git's rules for references.
std::optional<std::string> revision_problem(std::string_view revision);
/// The same of a file's path in a repository, which must not lead out of a directory on any system.
std::optional<std::string> repo_path_problem(std::string_view path);
/// 40 lower-case hex digits.
bool is_commit(std::string_view text) noexcept;
/// 64 lower-case hex digits.
bool is_sha256(std::string_view text) noexcept;

/// Percent-encoded for one segment of a URL: slashes too.
std::string escape_revision(std::string_view revision);
/// Percent-encoded for the end of a URL: each segment by itself.
std::string escape_path(std::string_view path);
/// What percent-encoding stands for. Nothing if a `%` has no two hex digits after it.
std::optional<std::string> unescape_percent(std::string_view text);

}  // namespace hfshard
