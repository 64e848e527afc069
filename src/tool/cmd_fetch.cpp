#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/hub_flags.h"
#include "tool/interrupt.h"
#include "tool/progress.h"

#include "hfshard/fetch.h"

namespace hfshard {
namespace {

struct FetchFlags {
  std::string model;
  std::string revision;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
};

Json fetch_json(const FetchReport& report) {
  Json out;
  out["model"] = report.model;
  out["commit"] = report.commit;
  out["snapshot"] = report.snapshot;
  out["files"] = report.files;
  out["bytes"] = report.bytes;
  out["fetched_files"] = report.fetched_files;
  out["fetched_bytes"] = report.fetched_bytes;
  return out;
}

int run_fetch(const FetchFlags& flags, const Session& session) {
  SourceName source = source_name(session, flags.model, flags.revision);
  source.hub.stop = &watch_interrupts();
  const auto progress = make_progress(session);
  source.hub.note = notes_of(*progress);
  const FetchReport report = fetch(source, {flags.include, flags.exclude}, *progress);
  progress->finish();
  if (session.json) {
    print_json("fetch", fetch_json(report));
    return 0;
  }
  if (session.quiet) return 0;
  print_line(fmt::format("cached    {}", printable(report.snapshot)));
  if (report.fetched_files == 0) {
    print_line(fmt::format("complete  {}, {}: all were already here, with their sizes",
                           counted(report.files, "file"), human_bytes(report.bytes)));
    return 0;
  }
  print_line(fmt::format("fetched   {} of {}, {} of {}", report.fetched_files,
                         counted(report.files, "file"), human_bytes(report.fetched_bytes),
                         human_bytes(report.bytes)));
  return 0;
}

}  // namespace

Command fetch_command(Session& session) {
  const auto flags = std::make_shared<FetchFlags>();
  Command out{
      .name = "fetch",
      .summary = "download a Hub model into the cache, and verify it",
      .description = {"To keep a local copy of a model, run fetch; convert doesn't need one. "
                      "hfshard writes the files below $HF_HUB_CACHE as huggingface_hub does "
                      "and compares each downloaded file with the Hub's digest. For files "
                      "that are in the cache already, it compares only the sizes. Both "
                      "programs find the files offline."}};
  out.positionals = {{.name = "MODEL",
                      .to = &flags->model,
                      .help = "ORG/NAME, hf://ORG/NAME@REV or the URL of a model, folder or file"}};
  out.options = joined({{revision_option(flags->revision),
                         {.name = "--include",
                          .to = &flags->include,
                          .value = "GLOB",
                          .group = Group::checkpoint,
                          .help = "only files whose path matches GLOB; * matches slashes too",
                          .standard = "all"},
                         {.name = "--exclude",
                          .to = &flags->exclude,
                          .value = "GLOB",
                          .group = Group::checkpoint,
                          .help = "leave out files whose path matches GLOB",
                          .standard = "none"}},
                        progress_table(session),
                        common_table(session)});
  out.examples = {{"a whole model", "hfshard fetch Qwen/Qwen3-8B"},
                  {"the tokenizer's files, at one revision",
                   "hfshard fetch Qwen/Qwen3-8B --include '*.json' --revision main"}};
  out.run = [flags, &session] { return run_fetch(*flags, session); };
  return out;
}

}  // namespace hfshard
