#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "bytes/local/files.h"
#include "format/formats.h"
#include "format/orbax/orbax.h"
#include "plan/plan.h"
#include "run/conversion.h"
#include "run/engine/budget.h"
#include "service/prepare.h"
#include "support/temp_dir.h"
#include "support/test_data.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Reports nothing.
using QuietReporter = Reporter;

/// Keeps the notes.
class NotesReporter final : public Reporter {
 public:
  void note(const std::string& text) override { notes.push_back(text); }
  std::vector<std::string> notes;
};

/// With these sizes, the fixtures of tests/oracle have hundreds of units and many data files.
inline Limits small_limits() {
  Limits limits;
  limits.floor_bytes = 64;
  limits.run_bytes = 64;
  limits.file_min_bytes = limits.file_max_bytes = std::uint64_t{128} << 10;
  limits.merge_bytes = std::uint64_t{32} << 10;
  limits.segment_bytes = 256;
  limits.commit_bytes = std::uint64_t{64} << 10;
  return limits;
}

/// Copies a fixture of tests/oracle to `to`.
inline std::string copy_fixture(const std::string& name, const std::string& to) {
  const std::string from = test_data("oracle/") + name;
  for (const std::string& file : list_directory(from)) {
    if (file != "expected.json") write_text(join_path(to, file), read_file(join_path(from, file)));
  }
  return to;
}

inline PlanOptions small_options() {
  PlanOptions options;
  options.chunk_bytes = 64;
  options.meshes = {"fsdp=4,tensor=2"};
  return options;
}

inline Plan small_plan(const std::string& source, const PlanOptions& options = small_options(),
                       const Limits& limits = small_limits()) {
  return make_plan(source, options, format_of(options.target), limits);
}

using Hook = std::function<void(Stage, const Tile&)>;

/// Converts and publishes.
inline RunResult convert(const Plan& plan, const RunOptions& options, const Hook& hook = {}) {
  QuietReporter reporter;
  return run_convert(plan, format_of(plan.options().target), options, reporter, hook);
}

inline RunOptions to_output(const std::string& out) {
  RunOptions options;
  options.out = out;
  options.jobs = 2;
  return options;
}

/// Returns every file below a directory: relative path -> bytes.
inline std::map<std::string, std::string> tree_of(const std::string& top,
                                                  const std::string& below = "") {
  std::map<std::string, std::string> out;
  for (const std::string& name : list_directory(join_path(top, below))) {
    const std::string path = below.empty() ? name : join_path(below, name);
    const std::string full = join_path(top, path);
    if (file_info(full)->kind == FileKind::directory) {
      out[path + "/"] = "";
      out.merge(tree_of(top, path));
    } else {
      out[path] = read_file(full);
    }
  }
  return out;
}

/// Returns the names of files that aren't in both trees with equal bytes.
inline std::string differing(const std::map<std::string, std::string>& a,
                             const std::map<std::string, std::string>& b) {
  std::map<std::string, std::string> both = a;
  both.insert(b.begin(), b.end());
  std::string out;
  for (const auto& [path, unused] : both) {
    const auto left = a.find(path);
    const auto right = b.find(path);
    if (left == a.end() || right == b.end() || left->second != right->second) out += path + "\n";
  }
  return out;
}

}  // namespace hfshard
