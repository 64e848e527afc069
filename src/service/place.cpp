#include "service/place.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/hub/hf_cache.h"
#include "bytes/hub/hub_listing.h"
#include "bytes/hub/hub_name.h"
#include "bytes/hub/hub_store.h"
#include "bytes/local/files.h"
#include "service/bring.h"
#include "service/run_directory.h"

namespace hfshard {
namespace {

void tell(const SourceName& source, const std::string& text) {
  if (source.hub.note) source.hub.note(text);
}

// Returns the listing of a cached commit. Without a stored listing, lists the files in the cache.
std::vector<TreeFile> listing_of(const CachedRepo& cached, const std::string& commit) {
  if (auto tree = cached.tree(commit)) return *std::move(tree);
  std::vector<TreeFile> out;
  for (CachedFile& file : cached.files(commit)) {
    TreeFile& entry = out.emplace_back();
    entry.path = std::move(file.path);
    entry.size_bytes = file.size_bytes;
    // A blob's name is its digest.
    const std::string link = link_target(join_path(cached.snapshot_path(commit), entry.path));
    const std::string blob = link.substr(link.rfind('/') + 1);
    if (is_sha256(blob)) entry.sha256 = blob;
    if (is_commit(blob)) entry.blob_id = blob;
  }
  return out;
}

// Weights that hfshard doesn't read.
constexpr const char* kOtherWeights[] = {"*.h5",        "*.msgpack", "*.onnx",
                                         "*.onnx_data", "*.ot",      "*.gguf"};
// Weights that it reads from models without safetensors files. Otherwise they are second copies.
constexpr const char* kTorchWeights[] = {"pytorch_model*.bin", "*.pth",        "*.pt", "*.ckpt",
                                         "original/*",         "consolidated*"};

bool fits_any(std::span<const char* const> globs, const std::string& path) {
  return std::ranges::any_of(globs, [&](const char* glob) { return glob_match(glob, path); });
}

template <typename Files>
bool has_safetensors(const Files& files) {
  return std::ranges::any_of(files,
                             [](const auto& file) { return file.path.ends_with(".safetensors"); });
}

// Returns whether a file has weights that hfshard doesn't read from this model.
bool is_other_copy(const std::string& path, bool safetensors) {
  return fits_any(kOtherWeights, path) || (safetensors && fits_any(kTorchWeights, path));
}

// Returns the first link of a snapshot to a missing file that the model needs.
std::optional<BrokenLink> broken_link(const CachedRepo& cached, const std::string& commit) {
  std::vector<BrokenLink> broken = cached.broken_links(commit);
  const bool safetensors = has_safetensors(broken) || has_safetensors(cached.files(commit));
  for (BrokenLink& link : broken) {
    if (!is_other_copy(link.path, safetensors)) return std::move(link);
  }
  return std::nullopt;
}

// Returns another commit whose snapshot has all files of the model. Empty without one.
std::string whole_snapshot(const CachedRepo& cached, const std::string& torn) {
  for (const std::string& commit : cached.commits()) {
    if (commit == torn || broken_link(cached, commit)) continue;
    const std::vector<CachedFile> files = cached.files(commit);
    const bool safetensors = has_safetensors(files);
    const bool has_weights = safetensors || std::ranges::any_of(files, [](const CachedFile& file) {
                               return fits_any(kTorchWeights, file.path);
                             });
    std::vector<std::string> missing;
    if (const auto tree = cached.tree(commit)) missing = missing_files(*tree, files);
    if (has_weights && std::ranges::all_of(missing, [&](const std::string& path) {
          return is_other_copy(path, safetensors);
        }))
      return commit;
  }
  return {};
}

void refuse_torn(const CachedRepo& cached, const std::string& repo, const std::string& commit) {
  const auto link = broken_link(cached, commit);
  if (!link) return;
  const std::string whole = whole_snapshot(cached, commit);
  throw Error(ErrorCode::not_found,
              fmt::format("the file in the cache is a link to {}, which doesn't exist",
                          quote(link->target)))
      .in_file(join_path(cached.snapshot_path(commit), link->path))
      .hint(fmt::format(
          "hfshard fetch {} --revision {} downloads it{}", repo, commit,
          whole.empty() ? "" : fmt::format("; or pass hf://{}@{}, which is whole", repo, whole)));
}

StorePath cached_place(const CachedRepo& cached, const std::string& repo, const std::string& commit,
                       const std::string& path) {
  refuse_torn(cached, repo, commit);
  return hub_place(nullptr, {repo, commit}, listing_of(cached, commit),
                   cached.snapshot_path(commit))
      .at(path.empty() ? "." : path);
}

Error not_cached(const SourceName& source, const CachedRepo& cached, const std::string& what) {
  return Error(ErrorCode::not_found, fmt::format("{} isn't in the cache", what))
      .in_file(cached.folder())
      .hint(source.hub.offline ? "HF_HUB_OFFLINE is set, so hfshard doesn't ask the Hub"
                               : "pass another revision, or the model (ORG/NAME)");
}

// Opens a cache directory that was named by its path. It doesn't use the network.
StorePath named_in_cache(const SourceName& source, const CachePlace& place) {
  const CachedRepo cached(place.folder);
  std::string commit = place.commit;
  if (commit.empty()) {
    const std::string revision =
        source.revision.empty() ? std::string(kDefaultRevision) : source.revision;
    commit = cached.commit_of(revision).value_or("");
    const std::vector<std::string> all = cached.commits();
    if (commit.empty() && source.revision.empty() && all.size() == 1) commit = all.front();
    if (commit.empty() || !cached.has_snapshot(commit)) {
      throw not_cached(source, cached, fmt::format("revision {}", quote(revision)));
    }
  } else if (!source.revision.empty() && cached.commit_of(source.revision) != commit) {
    throw Error(ErrorCode::usage, fmt::format("--revision {} isn't the revision of this snapshot",
                                              quote(source.revision)))
        .in_file(source.text);
  }
  tell(source, fmt::format("reading commit {} of {} from the cache", commit, place.repo));
  return cached_place(cached, place.repo, commit, place.path);
}

// Allows the revision in one place only.
HubName with_revision(const SourceName& source, HubName name) {
  if (!source.revision.empty() && !name.revision.empty() && name.revision != source.revision) {
    throw Error(ErrorCode::usage, fmt::format("--revision {} and {} name two revisions",
                                              quote(source.revision), quote(name.revision)))
        .in_file(source.text);
  }
  if (name.revision.empty()) name.revision = source.revision;
  return name;
}

void keep_files(const SourceName& source, const HubName& name, HubClient& client,
                const HubRepo& repo, const std::vector<TreeFile>& tree,
                const BringOptions& bringing) {
  if (source.hub.cache_directory.empty()) {
    throw Error(ErrorCode::usage, "--keep-files needs a cache directory").in_file(source.text);
  }
  std::vector<TreeFile> kept = tree;
  std::erase_if(kept, [&](const TreeFile& file) {
    return !name.path.empty() && file.path != name.path && !file.path.starts_with(name.path + "/");
  });
  std::uint64_t left_out_bytes = 0;
  const bool safetensors = has_safetensors(kept);
  std::erase_if(kept, [&](const TreeFile& file) {
    const bool other = is_other_copy(file.path, safetensors);
    if (other) left_out_bytes += file.size_bytes;
    return other;
  });
  if (left_out_bytes > 0) {
    tell(source,
         fmt::format(
             "{} of weights in other formats stay on the Hub; run hfshard fetch to download them",
             human_bytes(left_out_bytes)));
  }
  if (kept.empty()) return;  // the model's reader reports what's missing
  const FetchReport report = bring_files(client, repo, name.revision, tree, kept, bringing);
  const std::string files =
      report.files == 1 ? std::string("1 file") : fmt::format("{} files", report.files);
  tell(source, fmt::format("keeping {} in {}", files, report.snapshot));
}

StorePath of_hub(const SourceName& source, const HubName& name, const BringOptions& bringing) {
  const std::string& revision = name.revision;
  const std::string asked = revision.empty() ? std::string(kDefaultRevision) : revision;
  std::optional<CachedRepo> cached;
  if (!source.hub.cache_directory.empty()) cached.emplace(source.hub.cache_directory, name.repo);
  if (source.hub.offline) {
    if (!cached) {
      throw Error(ErrorCode::not_found, "hfshard found no cache to read it from")
          .in_file(source.text)
          .hint("HF_HUB_OFFLINE is set, so hfshard doesn't ask the Hub");
    }
    const auto commit = cached->commit_of(asked);
    if (!commit || !cached->has_snapshot(*commit)) {
      throw not_cached(source, *cached, fmt::format("{} at {}", name.repo, quote(asked)));
    }
    tell(source, fmt::format("reading commit {} of {} from the cache", *commit, name.repo));
    return cached_place(*cached, name.repo, *commit, name.path);
  }
  const auto client = std::make_shared<HubClient>(source.hub);
  HubRepo repo;
  try {
    repo = resolve_revision(*client, name.repo, revision);
  } catch (const Error& error) {
    const auto commit = client->is_away() && cached ? cached->commit_of(asked) : std::nullopt;
    if (!commit || !cached->has_snapshot(*commit)) throw;
    tell(source, fmt::format("can't reach {} ({}): reading commit {} of {} from the cache",
                             client->endpoint(), error.sentence(), *commit, name.repo));
    return cached_place(*cached, name.repo, *commit, name.path);
  }
  std::optional<std::vector<TreeFile>> listing;
  if (cached && cached->has_snapshot(repo.commit)) listing = cached->tree(repo.commit);
  if (!listing) listing = list_files(*client, repo);
  if (source.keep_files) keep_files(source, name, *client, repo, *listing, bringing);
  tell(source, fmt::format("reading commit {} of {} from {}", repo.commit, repo.name,
                           source.keep_files ? "the cache" : client->endpoint()));
  return hub_place(client, repo, *std::move(listing),
                   cached ? cached->snapshot_path(repo.commit) : "")
      .at(name.path.empty() ? "." : name.path);
}

// If a directory `org` exists, `org/name` is more likely a path with a misspelled end.
bool is_path(const std::string& text) {
  const std::size_t slash = text.find('/');
  return slash == std::string::npos || is_directory(text.substr(0, slash));
}

// Tells the user which one hfshard reads if a directory has the name of a Hub model.
void tell_of_namesake(const SourceName& source) {
  const bool plain = source.text.find("://") == std::string::npos;
  if (!plain || source.text.find('/') == std::string::npos) return;
  if (!exists(join_path(source.text, "config.json"))) return;  // every model has one
  if (!parse_hub_name(source.text, source.hub.endpoint)) return;
  tell(source, fmt::format("reading the directory {}; for the Hub model of this name, pass hf://{}",
                           source.text, source.text));
}

StorePath place_of(const SourceName& source, const BringOptions& bringing) {
  if (exists(source.text)) {
    if (const auto place = recognise_cache_place(source.text)) {
      return named_in_cache(source, *place);
    }
    if (!source.revision.empty()) {
      throw Error(ErrorCode::usage, "--revision requires a Hub model, and this is a path")
          .in_file(source.text)
          .hint(fmt::format("for the Hub model of this name, pass hf://{}", source.text));
    }
    tell_of_namesake(source);
    return source.text;
  }
  const auto name = parse_hub_name(source.text, source.hub.endpoint);
  const bool plain = source.text.find("://") == std::string::npos;
  if (!name || (plain && is_path(source.text))) {
    if (!source.revision.empty()) {
      throw Error(ErrorCode::usage, "--revision requires a Hub model (ORG/NAME)")
          .in_file(source.text)
          .hint("pass a Hub model as ORG/NAME");
    }
    return source.text;
  }
  return of_hub(source, with_revision(source, *name), bringing);
}

}  // namespace

StorePath find_place(const SourceName& source, const BringOptions& bringing) {
  StorePath place = place_of(in_run(source), bringing);
  if (source.keep_files && place.revision().empty()) {
    throw Error(ErrorCode::usage, "--keep-files requires a Hub model (ORG/NAME)")
        .in_file(source.text)
        .hint("pass a Hub model as ORG/NAME");
  }
  return place;
}

HubName hub_name_of(const SourceName& source) {
  auto name = parse_hub_name(source.text, source.hub.endpoint);
  if (!name) {
    throw Error(ErrorCode::usage,
                fmt::format("{} isn't the name of a Hub model", quote(source.text)))
        .hint("pass a Hub model as ORG/NAME");
  }
  return with_revision(source, *std::move(name));
}

}  // namespace hfshard
