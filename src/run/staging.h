#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bytes/files.h"
#include "plan/plan.h"

#include "hfshard/convert.h"

namespace hfshard {

/// What stands at OUT before a run.
enum class OutState : std::uint8_t {
  absent,   ///< nothing, or an empty directory
  root,     ///< a checkpoint root without this step: the step is added
  step,     ///< a checkpoint root that has this step
  foreign,  ///< something else
};

/// Names derived from OUT. Staging is a sibling, never inside OUT, and has no suffix that Orbax
/// deletes.
struct OutPaths {
  std::string out;  ///< as typed, without trailing slashes
  std::string parent;
  std::string staging;  ///< <parent>/.<name>.hfshard
  std::string tree;     ///< <staging>/out
  std::string step;     ///< <staging>/out/<step>
};
/// Throws: usage (empty name, `.`, `/`).
OutPaths out_paths(const std::string& out, std::uint64_t step);
/// Where the step will stand: <out>/<step>; for an index in place OUT itself, which is the source.
std::string published_step(const Plan& plan, const OutPaths& paths);
OutState out_state(const std::string& out, std::uint64_t step);
/// Plan id recorded in a published step directory; empty if there is none.
std::string published_plan_id(const std::string& step_directory);

/// Refuses outputs that must not be touched before anything is written.
/// Throws: conflict (exists; output inside input or the reverse; a mount point), io.
void check_output(const Plan& plan, const RunOptions& options);

/// What a staging directory says about the plan it belongs to, for `finalize`.
struct StagedPlan {
  std::string source;  ///< absolute path of the source
  PlanOptions options;
};
/// Reads <staging>/plan.json. Throws: not_found (no run was started for this output), bad_input.
StagedPlan read_staged_plan(const std::string& out);

/// The staging directory of one run, locked while the object lives.
class Staging {
 public:
  /// Makes the directory, or continues one of the same plan. Throws: conflict (another plan, naming
  /// the parts that differ; a changed source; in use by another process), io.
  Staging(const Plan& plan, const OutPaths& paths, bool shared);
  const OutPaths& paths() const noexcept { return paths_; }
  bool continued() const noexcept { return continued_; }

 private:
  OutPaths paths_;
  bool continued_ = false;
  std::optional<DirectoryLock> lock_;
};

}  // namespace hfshard
