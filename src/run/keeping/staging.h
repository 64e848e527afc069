#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bytes/files.h"
#include "bytes/owned_directory.h"
#include "catalog/format.h"
#include "plan/plan.h"

#include "hfshard/convert.h"

namespace hfshard {

/// What stands at OUT before a run.
enum class OutState : std::uint8_t {
  absent,   ///< nothing, or an empty directory
  root,     ///< a checkpoint root without this step: the step is added
  step,     ///< a checkpoint root that has this step; of a format without steps, a checkpoint
  foreign,  ///< something else
};

/// What a staging directory is good for after the last run in it ended, however it ended.
enum class StagingUse : std::uint8_t {
  go_on,      ///< its journals and data belong together
  published,  ///< its step is in place already; what it holds is the old one, or nothing
};

/// Of the name of a staging directory, after a dot and the output's name.
inline constexpr std::string_view kStagingSuffix = ".hfshard";
/// Name, in the staging directory, of what says which plan it belongs to.
inline constexpr const char* kPlanRecordName = "plan.json";

/// Names derived from OUT. Staging is a sibling, never inside OUT, and has no suffix by which a
/// loader would know what it may delete.
struct OutPaths {
  std::string out;  ///< as typed, without trailing slashes
  std::string parent;
  std::string staging;  ///< <parent>/.<name>.hfshard
  std::string tree;     ///< <staging>/out
  std::string step;     ///< <staging>/out/<step>; as tree if no step was named
};
/// `step`: FileLayout::step_directory. Throws: usage (empty name, `.`, `/`).
OutPaths out_paths(const std::string& out, const std::string& step = {});
/// Those of a plan.
OutPaths out_paths(const Plan& plan, const std::string& out);
/// Where the step will stand: <out>/<step>; without steps, and for an index in place, OUT itself.
std::string published_step(const Plan& plan, const OutPaths& paths);
OutState out_state(const Plan& plan, const Format& target, const std::string& out);
/// Plan id with which the checkpoint of a step directory was published; empty if there is none.
std::string published_plan_id(const Format& target, const std::string& step_directory);

/// Refuses outputs that must not be touched before anything is written.
/// Throws: conflict (exists; output inside input or the reverse, or input inside staging; a mount
/// point; with overwrite, a step that is no checkpoint), io.
void check_output(const Plan& plan, const Format& target, const RunOptions& options);

/// What a staging directory says about the plan it belongs to, for `finalize`.
struct StagedPlan {
  std::string source;  ///< absolute path of the source
  PlanOptions options;
};
/// True if some run was started for this output and is not finished.
bool has_staged_plan(const std::string& out);
/// Reads <staging>/plan.json. Throws: not_found (no run was started for this output), bad_input.
StagedPlan read_staged_plan(const std::string& out);

/// The staging directory of one run, locked while the object lives.
class Staging {
 public:
  /// Makes the directory, or takes the one that is there, and recovers it unless it is shared.
  /// Throws: conflict (in use by another process; not made by hfshard; shared, and published
  /// already), io.
  Staging(const OutPaths& paths, bool shared);
  const OutPaths& paths() const noexcept { return paths_; }
  /// True if the last run in it ended after it had published.
  bool published() const noexcept { return use_ == StagingUse::published; }
  /// Continues what a run of the same plan has left, or starts. Throws: conflict (another plan,
  /// naming the parts that differ; a changed source), io.
  void begin(const Plan& plan);
  /// Throws: conflict, as begin does, if there is a record of another plan.
  void check(const Plan& plan) const;
  /// Removes it with all it holds. Throws: io.
  void remove() const;

 private:
  OutPaths paths_;
  bool shared_;
  OwnedDirectory directory_;
  StagingUse use_;
};

/// Removes what is left of a staging directory, if there is one, and puts OUT back to what it was
/// if publishing was interrupted. Throws: conflict (in use, not made by hfshard), io.
bool clean_staging(const OutPaths& paths);

}  // namespace hfshard
