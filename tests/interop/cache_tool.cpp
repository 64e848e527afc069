// Tests with the real client use this tool:
//
// - cache_tool fill ROOT REPO COMMIT REVISION FILES: puts the files of a directory into a cache of
//   models. Standard input has the listing (as trees/<commit>.json). The pieces of a file come out
//   of order, as from the network.
// - cache_tool show ROOT REPO REVISION: prints what a reader finds there.

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/coding.h"
#include "base/json.h"
#include "bytes/hub/hf_cache.h"
#include "bytes/hub/hf_cache_writer.h"
#include "bytes/local/files.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

namespace hfshard {
namespace {

constexpr std::size_t kPieceBytes = 1'000'003;

std::string text_or_empty(const Json& entry, std::string_view key) {
  const Json* value = entry.find(key);
  return value == nullptr ? std::string() : value->as_string();
}

std::vector<TreeFile> listing() {
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  const Json json = parse_json(text, "standard input");
  std::vector<TreeFile> out;
  for (const auto& [path, entry] : json.at("files").as_object()) {
    out.push_back({path, entry.at("size").as_uint(), entry.at("blob_id").as_string(),
                   text_or_empty(entry, "lfs_sha256"), text_or_empty(entry, "xet_hash")});
  }
  return out;
}

void fill(const std::vector<std::string>& words) {
  const CacheWriter writer(words[1], words[2], words[3]);
  const std::vector<TreeFile> tree = listing();
  for (const TreeFile& file : tree) {
    auto out = writer.begin(file);
    if (!out) continue;
    const std::string text = read_file(join_path(words[5], file.path));
    const std::size_t pieces = text.size() / kPieceBytes + 1;
    for (std::size_t i = 0; i < pieces; ++i) {
      // Swaps neighbors.
      const std::size_t piece = std::min(i ^ 1U, pieces - 1) == (i ^ 1U) ? i ^ 1U : i;
      out->write_at(piece * kPieceBytes,
                    as_bytes(std::string_view(text).substr(piece * kPieceBytes, kPieceBytes)));
    }
    out->finish();
  }
  writer.write_tree(tree);
  writer.write_ref(words[4]);
}

void show(const std::vector<std::string>& words) {
  const CachedRepo repo(words[1], words[2]);
  const std::string commit = repo.commit_of(words[3]).value_or("");
  Json out;
  out["commit"] = commit;
  Json& files = out["files"];
  files.object();
  for (const CachedFile& file : repo.files(commit)) files[file.path] = file.size_bytes;
  Json& missing = out["missing"];
  missing.array();
  const auto tree = repo.tree(commit);
  out["listed"] = tree.has_value();
  for (const std::string& path :
       tree ? missing_files(*tree, repo.files(commit)) : std::vector<std::string>()) {
    missing.array().emplace_back(path);
  }
  std::cout << dump_json(out) << "\n";
}

int run(const std::vector<std::string>& words) {
  try {
    if (words.size() == 6 && words[0] == "fill") {
      fill(words);
    } else if (words.size() == 4 && words[0] == "show") {
      show(words);
    } else {
      std::cerr << "cache_tool: wrong words\n";
      return 2;
    }
    return 0;
  } catch (const Error& error) {
    std::cerr << error.format() << "\n";
    return exit_status(error.code());
  }
}

}  // namespace
}  // namespace hfshard

int main(int argc, char** argv) { return hfshard::run({argv + 1, argv + argc}); }
