#include "tool/cmd_steps.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/convert_report.h"
#include "tool/progress.h"

namespace hfshard {
namespace {

// Shows the progress of one step after the other, and prints their common notes once.
class StepsProgress final : public Reporter {
 public:
  StepsProgress(const Session& session, bool resume) : session_(session), resume_(resume) {}

  void planned(const PlanSummary& plan) override {
    now_ = make_progress(session_);
    PlanSummary shown = plan;
    shown.other_steps.clear();
    if (plan.notes == before_.notes) shown.notes.clear();
    if (plan.warnings == before_.warnings) shown.warnings.clear();
    if (names_of(plan) == names_of(before_)) shown.drops.clear();
    before_ = plan;
    now_->planned(shown);
  }
  // Every step starts from nothing, so this isn't worth a note.
  void resumed(const FoundWork& found) override {
    FoundWork told = found;
    told.asked = resume_;
    if (found.bytes > 0 || found.arrived_bytes > 0) now_->resumed(told);
  }
  void started(std::uint64_t total_bytes, std::uint64_t done_bytes) override {
    now_->started(total_bytes, done_bytes);
  }
  void linked(const std::function<std::uint64_t()>& bytes) override { now_->linked(bytes); }
  void timed(const StageTimes& times) override { now_->timed(times); }
  void advanced(std::uint64_t bytes) override { now_->advanced(bytes); }
  void note(const std::string& text) override {
    if (now_) {
      now_->note(text);
    } else {
      print_note(session_, "note: " + text);
    }
  }
  // Ends the progress of one step.
  void finish() {
    if (now_) now_->finish();
    now_.reset();
  }

 private:
  static std::vector<std::string> names_of(const PlanSummary& plan) {
    std::vector<std::string> out;
    for (const DroppedTensors& drop : plan.drops) {
      out.push_back(drop.why);
      out.insert(out.end(), drop.names.begin(), drop.names.end());
    }
    return out;
  }

  const Session& session_;
  bool resume_;
  PlanSummary before_;
  std::unique_ptr<Progress> now_;
};

void print_step(const RunResult& run) {
  if (run.already_done) return print_complete(run);
  print_path(run);
}

}  // namespace

int run_steps(const Session& session, const SourceName& source, const PlanOptions& wanted,
              const RunOptions& options, const StepList& steps) {
  StepsProgress progress(session, options.resume);
  const std::vector<ConvertReport> reports =
      convert_steps(source, wanted, steps, options, progress, [&](const ConvertReport& report) {
        progress.finish();
        if (session.json || session.quiet) return;
        print_step(report.run);
        if (report.run.overflows > 0) print_overflows(report.run);
        flush_results();
      });
  if (session.json) {
    Json out;
    Json& items = out["steps"] = Json::Array{};
    for (const ConvertReport& report : reports) items.array().push_back(result_json(report));
    print_json("reshard", std::move(out));
    return 0;
  }
  if (session.quiet) return 0;
  const ConvertReport& last = reports.back();
  if (last.run.already_done) return 0;
  print_about(last.plan);
  print_end(last, options.out);
  return 0;
}

}  // namespace hfshard
