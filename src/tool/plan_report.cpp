#include "tool/plan_report.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <unistd.h>

#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"
#include "tool/cli.h"
#include "tool/fields.h"
#include "tool/help.h"
#include "tool/progress.h"
#include "tool/steps.h"
#include "tool/text_table.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

std::string duration_text(double seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string mesh_text(const PlanSummary& plan) {
  std::vector<std::string> parts;
  for (const std::string& mesh : plan.meshes) parts.push_back(mesh.empty() ? "one device" : mesh);
  return join(parts, " and ") + (plan.mesh_chosen ? " (chosen; pass --mesh to change it)" : "");
}

bool wants_side_file(const PlanSummary& plan) { return plan.output_bytes > kMostSideBytes; }

// Adds the linked share, the leaves that can't be linked with their reasons, and the bytes to
// write.
std::vector<Field> link_fields(const PlanSummary& plan) {
  const auto all = static_cast<double>(plan.linked_bytes + plan.output_bytes);
  const double share = all > 0 ? 100.0 * static_cast<double>(plan.linked_bytes) / all : 0;
  std::vector<Field> out;
  out.push_back(
      {"linked", fmt::format("{:.1f}% of the bytes: {} in {} of {}", share,
                             human_bytes(plan.linked_bytes), counted(plan.linked_chunks, "chunk"),
                             counted(plan.linked_leaves, "leaf", "leaves"))});
  std::map<std::string, std::vector<std::string>> reasons;
  for (const NotLinkedLeaf& item : plan.not_linked) reasons[item.why].push_back(item.path);
  for (const auto& [why, leaves] : reasons) {
    const std::string_view rest = leaves.size() == 1 ? "" : " the first";
    out.push_back(
        {"converted", fmt::format("{}, {}{}: {}", counted(leaves.size(), "leaf", "leaves"),
                                  leaves.front(), rest, why)});
  }
  std::string copied = "nothing; all data stays in the source's files";
  if (plan.output_bytes > 0)
    copied = fmt::format("{} into {}", human_bytes(plan.output_bytes),
                         counted(plan.files, "side data file"));
  if (wants_side_file(plan)) copied += "; pass --side-file to allow it";
  out.push_back({"copied", copied});
  return out;
}

}  // namespace

void print_leaves(const PlanReport& report) {
  const auto any = [&](const auto& has) { return std::ranges::any_of(report.leaves, has); };
  const bool inner = any([](const PlannedLeaf& leaf) { return leaf.inner.has_value(); });
  const bool links = report.summary.links;
  const bool cuts = !report.summary.whole_arrays;
  std::vector<std::string> heading{"leaf", "dtype", "bytes"};
  if (cuts) heading.emplace_back("chunks");
  if (links) heading.emplace_back("data");
  heading.emplace_back("shape");
  if (cuts) heading.insert(heading.end(), {"shard", "chunk"});
  if (inner) heading.emplace_back("inner chunk");
  TextTable table(std::move(heading));
  for (const PlannedLeaf& leaf : report.leaves) {
    std::vector<std::string> row{leaf.path, std::string(to_string(leaf.dtype)),
                                 human_bytes(leaf.bytes)};
    if (cuts) row.push_back(std::to_string(leaf.chunks));
    if (links) row.emplace_back(leaf.linked ? "linked" : "written");
    row.push_back(to_string(leaf.shape));
    if (cuts) row.insert(row.end(), {to_string(leaf.shard), to_string(leaf.chunk)});
    if (leaf.inner) row.push_back(to_string(*leaf.inner));
    table.add(std::move(row));
  }
  print_table(table, 2);
  if (report.summary.leaves > report.leaves.size()) {
    print_line(fmt::format(
        "  ... and {} (--json lists all)",
        counted(report.summary.leaves - report.leaves.size(), "more leaf", "more leaves")));
  }
}

void print_dtypes(const PlanSummary& plan) {
  for (const DTypeChange& change : plan.dtypes) {
    print_field(change.decoded ? "decoded" : "cast",
                fmt::format("{} in, {} out: {} {} {}", human_bytes(change.source_bytes),
                            human_bytes(change.output_bytes), change.from,
                            change.decoded ? "decodes to" : "becomes", change.to));
  }
}

namespace {

bool fits_on_disk(const PlanReport& report) {
  return *report.free_bytes >= report.summary.output_bytes + report.scratch_bytes;
}

void print_disk(const PlanReport& report) {
  if (report.scratch_bytes > 0)
    print_field("scratch", fmt::format("{} of disk during the run, for unpacked arrays that "
                                       "don't fit into memory",
                                       human_bytes(report.scratch_bytes)));
  if (!report.free_bytes) return;
  const char* lacking =
      report.summary.compresses ? "enough only if the data compresses well" : "not enough";
  print_field("disk", fmt::format("{} free, {}", human_bytes(*report.free_bytes),
                                  fits_on_disk(report) ? "enough" : lacking));
}

void print_time(const PlanReport& report) {
  if (!report.time) {
    print_field("time", fmt::format("not estimated: {}", report.why_no_time));
    return;
  }
  const TimeEstimate& time = *report.time;
  print_field(
      "time",
      fmt::format("about {}, from a short trial on this machine; {} is the limit "
                  "(reading {}, writing {}{}, processor {})",
                  duration_text(time.seconds),
                  time.limit == "processor" ? "the processor" : time.limit,
                  duration_text(time.read_seconds), duration_text(time.write_seconds),
                  time.one_disk ? " on the same disk" : "", duration_text(time.processor_seconds)));
}

Json time_json(const TimeEstimate& time) {
  Json out;
  out["seconds"] = time.seconds;
  out["read_seconds"] = time.read_seconds;
  out["write_seconds"] = time.write_seconds;
  out["processor_seconds"] = time.processor_seconds;
  out["one_disk"] = time.one_disk;
  out["limit"] = time.limit;
  return out;
}

// Prints facts about the source and the output.
void add_facts(const PlanSummary& plan, Json& out) {
  add_steps(plan.step, plan.other_steps, out);
  out["family"] = plan.family;
  out["scheme"] = plan.scheme;
  if (!plan.dialect.empty()) out["dialect"] = plan.dialect;
  out["layers"] = plan.stacked ? "stacked" : "separate";
  out["warnings"] = texts_json(plan.warnings);
  out["notes"] = texts_json(plan.notes);
  Json& drops = out["drops"] = Json::Array{};
  for (const DroppedTensors& drop : plan.drops) {
    Json entry;
    entry["why"] = drop.why;
    entry["tensors"] = texts_json(drop.names);
    drops.array().push_back(std::move(entry));
  }
}

}  // namespace

void add_linked(const PlanSummary& plan, Json& out) {
  out["linked_bytes"] = plan.linked_bytes;
  out["linked_leaves"] = plan.linked_leaves;
  out["linked_chunks"] = plan.linked_chunks;
  Json& rest = out["not_linked"] = Json::Array{};
  for (const NotLinkedLeaf& item : plan.not_linked) {
    Json entry;
    entry["path"] = item.path;
    entry["why"] = item.why;
    rest.array().push_back(std::move(entry));
  }
  out["wants_side_file"] = wants_side_file(plan);
  out["loads"] = loads_json(plan.loads);
}

Json outcome_json(const ConvertReport& report) {
  Json out;
  add_facts(report.plan, out);
  out["plan_id"] = report.plan.id;
  out["path"] = report.run.path;
  out["published"] = report.run.published || report.run.already_done;
  out["already_done"] = report.run.already_done;
  out["root_digest"] = report.run.root_digest;
  out["seconds"] = report.run.seconds;
  out["next"] = texts_json(report.run.published ? next_words(report.plan, report.run.path)
                                                : std::vector<std::string>());
  return out;
}

Json leaf_json(const PlannedLeaf& leaf) {
  Json out;
  out["path"] = leaf.path;
  out["shape"] = shape_json(leaf.shape);
  out["dtype"] = to_string(leaf.dtype);
  out["axes"] = Json::Array{};
  for (const std::string& axis : leaf.axes)
    out["axes"].array().push_back(axis.empty() ? Json() : Json(axis));
  out["shard"] = shape_json(leaf.shard);
  out["chunk"] = shape_json(leaf.chunk);
  if (leaf.inner) out["inner"] = shape_json(*leaf.inner);
  if (leaf.linked) out["linked"] = true;
  out["chunks"] = leaf.chunks;
  out["bytes"] = leaf.bytes;
  return out;
}

Json dtypes_json(const PlanSummary& plan) {
  Json out = Json::Array{};
  for (const DTypeChange& change : plan.dtypes) {
    Json entry;
    entry["from"] = change.from;
    entry["to"] = change.to;
    entry["decoded"] = change.decoded;
    entry["source_bytes"] = change.source_bytes;
    entry["output_bytes"] = change.output_bytes;
    out.array().push_back(std::move(entry));
  }
  return out;
}

Json plan_json(const PlanReport& report) {
  const PlanSummary& plan = report.summary;
  Json out;
  add_facts(plan, out);
  out["plan_id"] = plan.id;
  out["identity"] = parse_json(plan.identity, "identity");
  out["meshes"] = texts_json(plan.meshes);
  out["parameters"] = plan.parameters;
  out["dtypes"] = dtypes_json(plan);
  out["tensors"] = plan.tensors;
  out["source_files"] = plan.source_files;
  out["dropped"] = plan.dropped;
  out["objects"] = plan.objects;
  out["source_bytes"] = plan.source_bytes;
  out["shared_tensors"] = plan.shared_tensors;
  out["output_bytes"] = plan.output_bytes;
  out["files"] = plan.files;
  out["chunks"] = plan.chunks;
  out["units"] = plan.units;
  if (plan.links) add_linked(plan, out);
  out["largest_unit_bytes"] = plan.largest_unit_bytes;
  out["threads"] = std::uint64_t{report.memory.threads};
  out["kernel_threads"] = std::uint64_t{report.memory.kernel_threads};
  out["need_memory_bytes"] = report.memory.need_bytes;
  out["control_memory_bytes"] = report.memory.control_bytes;
  out["peak_memory_bytes"] = report.memory.peak_bytes;
  out["scratch_bytes"] = report.scratch_bytes;
  out["model_names"] = texts_json(plan.model_names);
  out["load_words"] = texts_json(plan.load_words);
  out["load_note"] = plan.load_note;
  out["disk"] = Json();
  if (report.free_bytes) {
    out["disk"]["free_bytes"] = *report.free_bytes;
    out["disk"]["fits"] = fits_on_disk(report);
  }
  out["estimate"] = report.time ? time_json(*report.time) : Json();
  if (!report.time) out["no_estimate"] = report.why_no_time;
  if (!report.loads.empty()) out["loads"] = loads_json(report.loads);
  return out;
}

std::string family_text(const PlanSummary& plan) {
  if (plan.family == kNoFamily) return "any (hf: unchanged names and shapes)";
  if (!plan.dialect.empty()) return fmt::format("{} (hf, dialect {})", plan.family, plan.dialect);
  if (plan.scheme == "hf") return fmt::format("{} (hf: the model's own names)", plan.family);
  return fmt::format("{} ({}, {})", plan.family, plan.scheme,
                     plan.stacked ? "stacked" : "separate");
}

void print_plan(const PlanReport& report) {
  const PlanSummary& plan = report.summary;
  print_field("plan", plan.id);
  print_field("family",
              fmt::format("{}, {} parameters", family_text(plan), human_count(plan.parameters)));
  if (!plan.meshes.empty()) print_field("mesh", mesh_text(plan));
  print_field("source",
              fmt::format("{} in {}, {} read", counted(plan.tensors, "tensor"),
                          counted(plan.source_files, "file"), human_bytes(plan.source_bytes)));
  print_dtypes(plan);
  if (plan.shared_tensors > 0) {
    print_field("shared",
                plan.shared_tensors == 1
                    ? "1 tensor is part of several leaves; hfshard reads it once for each"
                    : fmt::format("{} tensors are part of several leaves; hfshard reads them "
                                  "once for each",
                                  plan.shared_tensors));
  }
  print_field("output",
              fmt::format("{}{} in {}, {}{}{}", plan.compresses ? "at most " : "",
                          human_bytes(plan.output_bytes), counted(plan.files, "data file"),
                          plan.whole_arrays ? "" : counted(plan.chunks, "chunk") + ", ",
                          counted(plan.leaves, "leaf", "leaves"),
                          plan.objects == 0 ? "" : ", " + counted(plan.objects, "object")));
  if (plan.links) {
    for (const Field& field : link_fields(plan)) print_field(field);
  }
  print_field("threads",
              fmt::format("{} compute, {} read and write files", report.memory.kernel_threads,
                          report.memory.threads - report.memory.kernel_threads));
  print_field("memory", fmt::format("at most {}; {} is enough ({} for the plan)",
                                    human_bytes(report.memory.peak_bytes),
                                    human_bytes(report.memory.need_bytes),
                                    human_bytes(report.memory.control_bytes)));
  for (const LoadReport& load : report.loads) {
    for (const Field& field : load_fields(load)) print_field(field);
  }
  print_disk(report);
  print_time(report);
}

std::vector<std::string> source_notes(const PlanSummary& plan) {
  std::vector<std::string> notes;
  if (plan.step) notes.push_back("note: reading step " + steps_text(*plan.step, plan.other_steps));
  for (const std::string& warning : plan.warnings) notes.push_back("warning: " + warning);
  for (const std::string& note : plan.notes) notes.push_back("note: " + note);
  for (const DroppedTensors& drop : plan.drops) {
    const std::string rest =
        drop.names.size() > 1 ? fmt::format(" and {} more", drop.names.size() - 1) : "";
    notes.push_back(
        fmt::format("note: not converted: {}{}: {}", quote(drop.names.front()), rest, drop.why));
  }
  return notes;
}

std::vector<std::string> link_lines(const PlanSummary& plan) {
  std::vector<std::string> out;
  if (!plan.links) return out;
  for (const Field& field : link_fields(plan))
    std::ranges::move(field_lines(field, file_columns(STDERR_FILENO)), std::back_inserter(out));
  return out;
}

std::vector<std::string> load_lines(const PlanSummary& plan) {
  std::vector<std::string> out;
  if (!plan.links) return out;
  std::vector<Field> fields;
  for (const LoadReport& load : plan.loads)
    std::ranges::move(load_fields(load), std::back_inserter(fields));
  for (const Field& field : fields)
    std::ranges::move(field_lines(field, file_columns(STDERR_FILENO)), std::back_inserter(out));
  return out;
}

namespace {

// Returns the arguments that name the run of a training state, so that the loader continues it:
// DIRECTORY/NAME/checkpoints/STEP/ITEM. Returns nothing if the state isn't in a run.
std::vector<std::string> run_words(const PlanSummary& plan, const std::filesystem::path& item) {
  constexpr std::size_t kWords = 3;
  const std::filesystem::path steps = item.parent_path().parent_path();
  if (plan.load_run.size() != kWords || steps.filename() != plan.load_run[2]) return {};
  const std::filesystem::path run = steps.parent_path();
  return {plan.load_run[0] + "=" + run.parent_path().string(),
          plan.load_run[1] + "=" + run.filename().string()};
}

}  // namespace

std::vector<std::string> next_words(const PlanSummary& plan, const std::string& items) {
  const std::string place = std::filesystem::absolute(items).lexically_normal().string();
  if (plan.load_path.empty()) return {"hfshard", "inspect", place};
  std::vector<std::string> out = run_words(plan, place);
  if (out.empty()) out.push_back(plan.load_path + "=" + place);
  out.insert(out.end(), plan.load_words.begin(), plan.load_words.end());
  if (!plan.load_assets.empty()) out.push_back(plan.load_assets + "=" + place);
  return out;
}

namespace {

// Returns a command as shell lines of at most `columns`, as far as its words allow. The first word,
// a path of any length, gets its own line.
std::vector<std::string> pasteable(const std::vector<std::string>& words, std::size_t columns) {
  constexpr std::size_t kGoesOn = 2;  // " \\"
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const std::string quoted = shell_word(word);
    if (out.size() < 2 || out.back().size() + 1 + quoted.size() + kGoesOn > columns) {
      out.push_back(quoted);
    } else {
      out.back() += " " + quoted;
    }
  }
  for (std::size_t i = 0; i + 1 < out.size(); ++i) out[i] += " \\";
  return out;
}

std::string one_line(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return join(quoted, " ");
}

}  // namespace

void print_next(const PlanSummary& plan, const std::string& items) {
  constexpr std::size_t kLabel = 10;
  constexpr std::size_t kMostColumns = 1000;  // no terminal has more
  const std::size_t columns = file_columns(STDOUT_FILENO);
  const std::vector<std::string> words = next_words(plan, items);
  const bool folds = columns <= kMostColumns && !plan.load_path.empty();
  const std::vector<std::string> lines =
      folds ? pasteable(words, columns - std::min(columns, kLabel)) : std::vector{one_line(words)};
  for (const std::string& line : lines)
    print_line(fmt::format("{:<{}}{}", &line == lines.data() ? "next" : "", kLabel, line));
  if (plan.load_path.empty() || plan.load_note.empty()) return;
  for (const std::string& line : wrapped(plan.load_note, columns - std::min(columns, kLabel)))
    print_line(std::string(kLabel, ' ') + line);
}

}  // namespace hfshard
