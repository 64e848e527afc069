#include "hfshard/fetch.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/hub/hf_cache.h"
#include "bytes/hub/hub_listing.h"
#include "bytes/local/files.h"
#include "service/bring.h"
#include "service/place.h"

namespace hfshard {
namespace {

bool matches(const std::vector<std::string>& globs, const std::string& path) {
  return std::ranges::any_of(globs, [&](const std::string& glob) {
    return glob_match(glob.ends_with('/') ? glob + "*" : glob, path);
  });
}

std::vector<TreeFile> wanted_files(const std::vector<TreeFile>& tree, const std::string& path,
                                   const FetchOptions& options) {
  std::vector<TreeFile> out;
  for (const TreeFile& file : tree) {
    if (!path.empty() && file.path != path && !file.path.starts_with(path + "/")) continue;
    if (!options.include.empty() && !matches(options.include, file.path)) continue;
    if (!matches(options.exclude, file.path)) out.push_back(file);
  }
  return out;
}

FetchReport fetch_files(const SourceName& source, const FetchOptions& options, const HubName& name,
                        Reporter& reporter) {
  HubClient client(source.hub);
  const HubRepo repo = resolve_revision(client, name.repo, name.revision);
  const auto known = CachedRepo(source.hub.cache_directory, repo.name).tree(repo.commit);
  const std::vector<TreeFile> tree = known ? *known : list_files(client, repo);
  const std::vector<TreeFile> files = wanted_files(tree, name.path, options);
  if (files.empty()) {
    throw Error(ErrorCode::not_found, fmt::format("no file of {} matches", repo.name))
        .hint("--include and --exclude match paths, as in *.safetensors");
  }
  return bring_files(client, repo, name.revision, tree, files, {.reporter = &reporter});
}

}  // namespace

FetchReport fetch(const SourceName& source, const FetchOptions& options, Reporter& reporter) {
  if (exists(source.text)) {
    throw Error(ErrorCode::usage, "this is a local path, and fetch downloads Hub models")
        .in_file(source.text)
        .hint(fmt::format("for the Hub model of this name, pass hf://{}", source.text));
  }
  const HubName name = hub_name_of(source);
  if (source.hub.cache_directory.empty()) {
    throw Error(ErrorCode::usage, "fetch needs a cache directory");
  }
  if (source.hub.offline) {
    throw Error(ErrorCode::usage, "HF_HUB_OFFLINE is set, so hfshard can't download");
  }
  try {
    return fetch_files(source, options, name, reporter);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled) throw;
    throw Error(ErrorCode::cancelled, "interrupted; completed files were kept")
        .hint("run the same command again to continue");
  }
}

}  // namespace hfshard
