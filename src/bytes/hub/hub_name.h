#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hfshard {

/// A person's name for a model of the Hub, or for a file or folder of it.
struct HubName {
  std::string repo;      ///< `org/name`, or `name` without a namespace
  std::string revision;  ///< branch, tag, `refs/pr/N` or commit
  std::string path;      ///< in the repository; empty: all
  friend bool operator==(const HubName&, const HubName&) = default;
};

inline constexpr std::string_view kHubUrl = "https://huggingface.co";
inline constexpr std::string_view kDefaultRevision = "main";

/// Reads `org/name`, `name`, either with `@revision`, `hf://[models/]org/name[@revision][/path]`,
/// and the URL of a model, a folder or a file below `endpoint`, huggingface.co or hf.co. Empty for
/// other texts. A plain name can also be a local directory, which callers check first. Throws:
/// usage (a URL or an hf:// name that breaks a rule), unsupported (a data set, a space).
std::optional<HubName> parse_hub_name(std::string_view text, std::string_view endpoint);

/// Returns why a text isn't the id of a repository, as the end of a sentence. Empty if it is.
/// Source: huggingface_hub, utils/_validators.py, with ASCII letters only.
std::optional<std::string> repo_id_problem(std::string_view repo);
/// Returns the problem of a revision, which names a file in the cache: git's rules for references.
std::optional<std::string> revision_problem(std::string_view revision);
/// Returns the problem of a file's path in a repository. It must not leave a directory on any
/// system.
std::optional<std::string> repo_path_problem(std::string_view path);
/// Returns whether a text is 40 lower-case hex digits.
bool is_commit(std::string_view text) noexcept;
/// Returns whether a text is 64 lower-case hex digits.
bool is_sha256(std::string_view text) noexcept;

/// Percent-encodes one segment of a URL, including slashes.
std::string escape_revision(std::string_view revision);
/// Percent-encodes the end of a URL, each segment separately.
std::string escape_path(std::string_view path);
/// Decodes percent-encoding. Empty if two hex digits don't follow a `%`.
std::optional<std::string> unescape_percent(std::string_view text);

}  // namespace hfshard
