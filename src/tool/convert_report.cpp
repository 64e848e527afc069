#include "tool/convert_report.h"

#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"
#include "tool/cli.h"
#include "tool/plan_report.h"

namespace hfshard {
namespace {

Json io_json(const std::vector<IoChoice>& choices) {
  Json out = Json::Array{};
  for (const IoChoice& choice : choices) {
    Json item;
    item["mode"] = std::string(to_string(choice.mode));
    item["why"] = choice.why;
    item["files"] = choice.files;
    out.array().push_back(std::move(item));
  }
  return out;
}

}  // namespace

Json result_json(const ConvertReport& report) {
  const RunResult& run = report.run;
  Json out = outcome_json(report);
  out["output_bytes"] = run.output_bytes;
  out["written_bytes"] = run.written_bytes;
  out["skipped_bytes"] = run.skipped_bytes;
  out["source_bytes"] = run.source_bytes;
  out["peak_arena_bytes"] = run.peak_arena_bytes;
  out["journal_records"] = run.journal_records;
  out["overflows"] = run.overflows;
  out["io"]["read"] = io_json(run.reads);
  if (run.network) {
    Json& network = out["network"];
    network["requests"] = run.network->requests;
    network["data_requests"] = run.network->data_requests;
    network["data_bytes"] = run.network->bytes;
    network["used_bytes"] = run.network->used_bytes;
    network["unchecked_bytes"] = run.network->unchecked_bytes;
  }
  out["io"]["write"] = io_json(run.writes);
  out["dtypes"] = dtypes_json(report.plan);
  out["model_names"] = texts_json(report.plan.model_names);
  return out;
}

void print_network(const RunResult& run) {
  if (!run.network) return;
  const NetworkUse& use = *run.network;
  std::string line =
      fmt::format("network   {} in {} requests", human_bytes(use.bytes), use.requests);
  if (use.used_bytes > 0) {
    line += fmt::format(", {:.2f}x the bytes needed",
                        static_cast<double>(use.bytes) / static_cast<double>(use.used_bytes));
  }
  print_line(line);
  if (use.unchecked_bytes == 0) return;
  print_line(fmt::format(
      "unverified {} were streamed without a checksum; pass --keep-files to verify whole files",
      human_bytes(use.unchecked_bytes)));
}

void print_overflows(const RunResult& run) {
  print_line(fmt::format(
      "overflow  {} became infinite; the new dtype is too narrow",
      run.overflows == 1 ? "1 finite value" : fmt::format("{} finite values", run.overflows)));
}

void print_about(const PlanSummary& plan) {
  print_line(fmt::format("family    {}", family_text(plan)));
  print_dtypes(plan);
}

void print_end(const ConvertReport& report, const std::string& out) {
  print_network(report.run);
  print_next(report.plan, report.run.path);
  if (!report.plan.carries_tokenizer) return;
  const std::string& below = report.plan.side_directory;
  print_line(fmt::format("tokenizer {}{}{}", printable(out), below.empty() ? "" : "/", below));
}

void print_path(const RunResult& run) {
  print_line(fmt::format("published {} ({} in {:.2f} s)", printable(run.path),
                         human_bytes(run.output_bytes), run.seconds));
}

void print_published(const ConvertReport& report, const std::string& out) {
  const RunResult& run = report.run;
  print_path(run);
  print_about(report.plan);
  print_line(fmt::format("digest    {}", run.root_digest));
  if (run.overflows > 0) print_overflows(run);
  print_end(report, out);
}

void print_complete(const RunResult& run) {
  print_line(
      fmt::format("complete  {} is already complete with these options", printable(run.path)));
}

}  // namespace hfshard
