#include "service/source_checks.h"

#include <fmt/format.h>

#include "base/text.h"
#include "service/recorded.h"
#include "service/step.h"

#include "hfshard/error.h"

namespace hfshard {

void check_root(const StorePath& place, const std::string& root) {
  if (root.empty() || !recorded_at(place)) return;
  throw Error(ErrorCode::usage,
              "--root selects a subtree of another program's checkpoint; hfshard wrote this one")
      .in_file(place.text())
      .hint("pass --include to select arrays");
}

void check_no_files(const StorePath& place, const FileGlobs& asked) {
  if (asked.ignore_index) {
    throw Error(ErrorCode::usage,
                "--ignore-index requires a Hugging Face model, and this is a tree of arrays")
        .in_file(place.text())
        .hint("leave out --ignore-index");
  }
  if (asked.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} selects files of a model, and this is a tree of arrays",
                          quote((asked.take.empty() ? asked.leave : asked.take).front())))
      .in_file(place.text())
      .hint("pass globs of array names to --include and --exclude");
}

void check_no_tree(const StorePath& place, const TreeOptions& asked) {
  read_source_step(place, asked);
  if (!asked.root.empty()) {
    throw Error(ErrorCode::usage, "--root requires a checkpoint that is a tree of arrays")
        .in_file(place.text())
        .hint("pass --include to select tensors of a model");
  }
  if (!asked.items.empty() || asked.all_items) {
    throw Error(ErrorCode::usage, "--items requires a checkpoint that is a tree of arrays")
        .in_file(place.text());
  }
}

}  // namespace hfshard
