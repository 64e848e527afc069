#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/element_report.h"
#include "tool/fields.h"
#include "tool/hub_flags.h"
#include "tool/interrupt.h"
#include "tool/plan_flags.h"
#include "tool/progress.h"
#include "tool/steps.h"
#include "tool/text_table.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

constexpr int kDiffers = 5;

Json verify_json(const VerifyResult& result) {
  Json out;
  out["path"] = result.path;
  add_steps(result.step, result.other_steps, out);
  out["checked_bytes"] = result.checked_bytes;
  out["chunks"] = result.chunks;
  out["tensors"] = result.tensors;
  out["objects"] = result.objects;
  out["files"] = result.files;
  out["unrecorded_bytes"] = result.unrecorded_bytes;
  out["differences"] = Json::Array{};
  for (const Difference& difference : result.differences) {
    Json entry;
    entry["leaf"] = difference.leaf;
    entry["chunk"] = difference.chunk;
    entry["tensor"] = difference.tensor;
    entry["what"] = difference.what;
    if (!difference.file.empty()) entry["file"] = difference.file;
    add_range(difference.range, entry);
    if (difference.out) entry["first"] = element_place_json(*difference.out);
    if (difference.source) entry["source"] = element_place_json(*difference.source);
    out["differences"].array().push_back(std::move(entry));
  }
  return out;
}

void print_verified(const VerifyResult& result) {
  for (const Difference& difference : result.differences) {
    std::string where = difference.leaf.empty() ? "the output" : quote(difference.leaf);
    if (!difference.chunk.empty()) where += fmt::format(" chunk ({})", difference.chunk);
    if (!difference.tensor.empty()) where += fmt::format(" from {}", quote(difference.tensor));
    print_difference("differs   ", fmt::format("{}: {}", where, difference.what));
    if (difference.range) {
      print_line(
          fmt::format("          bytes [{}, {})", difference.range->begin, difference.range->end));
    }
    if (difference.out && !difference.out->file.empty())
      print_line("          in " + element_place_text(*difference.out));
    if (difference.source && !difference.source->file.empty()) {
      print_line(fmt::format(
          "          made of element [{}] in {}",
          fmt::join(difference.source->index.begin(), difference.source->index.end(), ", "),
          element_place_text(*difference.source)));
    }
  }
  if (result.unrecorded_bytes > 0) {
    print_line(
        fmt::format("linked    {} without digests: only size, time and header of their files were "
                    "checked",
                    human_bytes(result.unrecorded_bytes)));
  }
  if (!result.other_steps.empty())
    print_line("step      " + steps_text(*result.step, result.other_steps));
  const std::string objects = result.objects == 0 ? "" : counted(result.objects, "object") + ", ";
  const std::string files = result.files == 0 ? "" : counted(result.files, "file") + ", ";
  const std::string said = fmt::format(
      " {}: {} in {}, {}, {}{}{}", printable(result.path), human_bytes(result.checked_bytes),
      counted(result.chunks, "chunk"), counted(result.tensors, "source tensor"), objects, files,
      counted(result.differences.size(), "difference"));
  if (result.differences.empty()) {
    print_line("verified " + said);
  } else {
    print_difference("FAILED   ", said);
  }
}

int run_verify_command(const Session& session, const SourceName& out, SourceName source,
                       const RunFlags& flags) {
  RunOptions options = run_options(session, flags);
  options.stop = &watch_interrupts();
  source.hub.stop = options.stop;
  const auto progress = make_progress(session);
  const VerifyResult result = verify(out, source, options, *progress);
  progress->finish();
  if (session.json) {
    print_json("verify", verify_json(result));
  } else if (!session.quiet || !result.differences.empty()) {
    print_verified(result);
  }
  return result.differences.empty() ? 0 : kDiffers;
}

}  // namespace

Command verify_command(Session& session) {
  const auto path = std::make_shared<std::string>();
  const auto source = std::make_shared<std::string>();
  const auto revision = std::make_shared<std::string>();
  const auto step = std::make_shared<std::optional<std::uint64_t>>();
  const auto flags = std::make_shared<RunFlags>();
  Command out{
      .name = "verify",
      .summary = "check an output against its recorded digests, or byte for byte against SOURCE"};
  out.positionals = {
      {.name = "OUT",
       .to = path.get(),
       .offer = Offer::directory,
       .help = "output of convert or reshard: the root, a step or an item directory"},
      {.name = "SOURCE",
       .to = source.get(),
       .required = false,
       .offer = Offer::file_or_directory,
       .help = "source of the conversion",
       .standard = "the recorded digests"}};
  out.options = joined({{revision_option(*revision), step_option(*step)},
                        only(run_table(*flags), {"--max-memory", "--jobs"}),
                        progress_table(session),
                        common_table(session)});
  out.examples = {{"against the digests that convert recorded", "hfshard verify out"},
                  {"every byte against the source", "hfshard verify out Qwen3-8B"}};
  std::ranges::find(out.options, "--step", &Option::name)->help =
      "step of OUT to check; hfshard finds the step of SOURCE in the record";
  out.run = [&session, path, source, revision, step, flags] {
    SourceName checked = source_name(session, *path, "");
    checked.step = *step;
    return run_verify_command(session, checked, source_name(session, *source, *revision), *flags);
  };
  return out;
}

}  // namespace hfshard
