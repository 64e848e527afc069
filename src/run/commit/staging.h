#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bytes/local/files.h"
#include "bytes/local/owned_directory.h"
#include "catalog/format.h"
#include "plan/plan.h"

#include "hfshard/convert.h"
#include "hfshard/error.h"

namespace hfshard {

/// The state of OUT before a run.
enum class OutState : std::uint8_t {
  absent,   ///< missing, or an empty directory
  root,     ///< a root without this step
  step,     ///< a root with this step, or a checkpoint without steps
  foreign,  ///< something else
};

/// The state of a staging directory after its last run.
enum class StagingUse : std::uint8_t {
  go_on,      ///< a run can resume
  published,  ///< the step was published
};

/// Suffix of a staging directory, after a dot and the output's name.
inline constexpr std::string_view kStagingSuffix = ".hfshard";
/// Name of the file in the staging directory that states its plan.
inline constexpr const char* kPlanRecordName = "plan.json";

/// Paths derived from OUT. Staging is a sibling, never inside OUT. Its suffix isn't one that
/// loaders delete.
struct OutPaths {
  std::string out;  ///< as typed, without trailing slashes
  std::string parent;
  std::string staging;  ///< <parent>/.<name>.hfshard
  std::string tree;     ///< <staging>/out
  std::string step;     ///< <staging>/out/<step>, or `tree`
};
/// Returns the paths. `step`: FileLayout::step_directory. Throws: usage (empty name, `.`, `/`).
OutPaths out_paths(const std::string& out, const std::string& step = {});
/// Returns the paths for a plan.
OutPaths out_paths(const Plan& plan, const std::string& out);
/// Returns the place of the published step: <out>/<step>. It is OUT itself for formats without
/// steps, and for an index in place.
std::string published_step(const Plan& plan, const OutPaths& paths);
OutState out_state(const Plan& plan, const Format& target, const std::string& out);
/// Returns the plan id of the checkpoint in a step directory. Empty if hfshard didn't publish it.
std::string published_plan_id(const Format& target, const std::string& step_directory);

/// Refuses outputs that hfshard must not touch, before anything is written.
/// Throws: conflict (exists; output inside input or the reverse, or input inside staging; a mount
/// point; with overwrite, a step that isn't a checkpoint), io.
void check_output(const Plan& plan, const Format& target, const RunOptions& options);

/// The plan of a staging directory, for `finalize`.
struct StagedPlan {
  std::string source;  ///< absolute path of the source
  PlanOptions options;
};
/// Returns whether an unfinished run exists for this output.
bool has_staged_plan(const std::string& out);
/// Reads <staging>/plan.json. Throws: not_found (no run was started for this output), bad_input.
StagedPlan read_staged_plan(const std::string& out);

/// The staging directory of one run, locked while the object lives.
class Staging {
 public:
  /// Makes the directory, or takes an existing one and recovers it unless it is shared.
  /// Throws: conflict (in use by another process; not made by hfshard; shared, and published
  /// already), io.
  Staging(const OutPaths& paths, bool shared);
  const OutPaths& paths() const noexcept { return paths_; }
  /// Returns whether the last run in it had published.
  bool published() const noexcept { return use_ == StagingUse::published; }
  /// Returns whether it is empty: no run has begun here.
  bool is_empty() const { return directory_.list().empty(); }
  /// Continues a run of the same plan, or starts one. Throws: conflict (another plan, naming the
  /// parts that differ; a changed source), io.
  void begin(const Plan& plan);
  /// Throws: conflict, as begin does, if there is a record of another plan.
  void check(const Plan& plan) const;
  /// Removes it with its contents. Throws: io.
  void remove() const;

 private:
  OutPaths paths_;
  bool shared_;
  OwnedDirectory directory_;
  StagingUse use_;
};

/// Removes a staging directory, if it exists. Restores OUT if publishing was interrupted. Returns
/// whether it existed. Throws: conflict (in use, not made by hfshard), io.
bool clean_staging(const OutPaths& paths);

}  // namespace hfshard
