#include "run/commit/unfinished.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "base/typed.h"
#include "bytes/local/files.h"
#include "bytes/local/owned_directory.h"
#include "run/commit/journal.h"
#include "run/commit/recover.h"
#include "run/commit/staging.h"

namespace hfshard {
namespace {

namespace fs = std::filesystem;

bool is_staging_name(std::string_view name) {
  return name.size() > kStagingSuffix.size() + 1 && name.starts_with('.') &&
         name.ends_with(kStagingSuffix);
}

// The staging directory that a place is or lies in; empty if none.
std::string staging_around(const std::string& place) {
  std::error_code none;  // a directory that was removed is around nothing
  for (fs::path at = fs::absolute(place, none).lexically_normal(); at.has_relative_path();
       at = at.parent_path()) {
    const std::string name = at.filename().string();
    if (is_staging_name(name) && exists(join_path(at.string(), kPlanRecordName)))
      return at.string();
  }
  return {};
}

// The output whose staging directory this is.
std::string out_of(const std::string& staging) {
  const fs::path path(staging);
  std::string name = path.filename().string();
  name = name.substr(1, name.size() - kStagingSuffix.size() - 1);
  return (path.parent_path() / name).string();
}

// Outputs that a place may mean: itself, or the one of which it would be a step.
std::vector<std::string> outs_of(const std::string& place) {
  std::vector<std::string> out{place};
  if (!exists(place)) out.push_back(parent_path(place));
  return out;
}

std::string staging_beside(std::string out) {
  while (out.ends_with('/')) out.pop_back();
  const std::string name = fs::path(out).filename().string();
  if (!url_scheme(out).empty() || name.empty() || name == "." || name == "..") return {};
  std::string staging = out_paths(out).staging;
  return exists(join_path(staging, kPlanRecordName)) ? staging : std::string();
}

template <typename T>
bool take_number(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// journal.<worker>-<workers>.<attempt>
void add_share(std::string_view name, Unfinished& out) {
  constexpr std::string_view kJournal = "journal.";
  if (!name.starts_with(kJournal)) return;
  name.remove_prefix(kJournal.size());
  std::uint32_t worker = 0;
  std::uint32_t workers = 0;
  if (!take_number(name, worker) || !name.starts_with('-')) return;
  name.remove_prefix(1);
  if (!take_number(name, workers)) return;
  out.workers = std::max(out.workers, workers);
  if (std::ranges::find(out.shares, worker) == out.shares.end()) out.shares.push_back(worker);
}

void read_record(Unfinished& out) {
  const std::string path = join_path(out.staging, kPlanRecordName);
  const Json record = parse_json(read_file(path), path);
  const StagedPlan staged = read_staged_plan(out.out);
  out.links = staged.options.link;
  out.step = staged.options.step.value_or(0);
  out.done_bytes = read_journals(out.staging, record.at("plan_id").as_string(), 0).done_bytes();
  out.source = staged.source;
}

}  // namespace

bool in_staging(const std::string& place) { return !staging_around(place).empty(); }

bool is_staging(const std::string& place) {
  std::error_code none;
  const std::string staging = staging_around(place);
  return !staging.empty() && fs::equivalent(staging, place, none);
}

std::optional<Unfinished> find_unfinished(const std::string& place) {
  Unfinished out;
  out.staging = staging_around(place);
  out.out = out.staging.empty() ? std::string() : out_of(out.staging);
  for (const std::string& candidate : outs_of(place)) {
    if (!out.staging.empty()) break;
    out.staging = staging_beside(candidate);
    out.out = candidate;
    while (out.out.size() > 1 && out.out.ends_with('/')) out.out.pop_back();
  }
  if (out.staging.empty()) return std::nullopt;
  try {
    if (staging_use(out_paths(out.out)) == StagingUse::published) return std::nullopt;
    for (const std::string& name : list_directory(out.staging)) add_share(name, out);
    std::ranges::sort(out.shares);
    out.goes_on = OwnedDirectory::in_use(out.staging);
    read_record(out);
  } catch (const Error& error) {  // what is damaged there is said by the run that goes on
    if (error.code() == ErrorCode::io) throw;
  }
  return out;
}

namespace {

std::string state_text(const Unfinished& run) {
  std::string out = fmt::format("{} written", human_bytes(run.done_bytes));
  if (run.workers > 1) {
    out += fmt::format(", {} of {} workers have begun ({})", run.shares.size(), run.workers,
                       fmt::join(run.shares, ", "));
  }
  return out;
}

std::string remedy(const Unfinished& run) {
  if (run.goes_on) return "a process is working on it; wait until it is done";
  const std::string_view command = run.links ? "link" : "convert";
  if (run.workers > 1) {
    return fmt::format(
        "run the missing workers, then hfshard finalize {}; or run the {} command with --resume",
        shell_word(run.out), command);
  }
  return fmt::format("repeat its command with --resume: hfshard {} {} {} ... --resume", command,
                     run.source.empty() ? "SOURCE" : shell_word(run.source), shell_word(run.out));
}

}  // namespace

Error unfinished_error(const Unfinished& run) {
  return Error(ErrorCode::not_found, fmt::format("the output isn't finished: {}", state_text(run)))
      .in_file(run.staging)
      .hint(remedy(run));
}

std::string unfinished_note(const Unfinished& run) {
  return fmt::format("step {} of {} isn't finished: {}; {}", run.step, printable(run.out),
                     state_text(run), printable(remedy(run)));
}

}  // namespace hfshard
