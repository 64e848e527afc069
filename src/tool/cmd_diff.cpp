#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/json_shape.h"
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

constexpr int kDifferent = 5;
// Differing tensors that are listed without --all.
constexpr std::size_t kShownTensors = 20;

struct DiffFlags {
  std::string a;
  std::string b;
  std::string revision;
  bool ignore_index = false;
  std::string tolerance;
  bool dtype_aware = false;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool all = false;
  std::string items;
  TreeFlags tree;
  RunFlags run;
};

// Parses `0.001`, an absolute difference, or `2ulp`.
DiffTolerance tolerance_of(const std::string& text) {
  DiffTolerance out;
  if (text.empty()) return out;
  const std::string number = text.substr(0, text.find("ulp"));
  const std::string unit = text.substr(number.size());
  if (unit == "ulp" || unit == "ulps") {
    std::uint64_t ulps = 0;
    const auto [end, wrong] = std::from_chars(number.data(), number.data() + number.size(), ulps);
    if (wrong == std::errc() && end == number.data() + number.size()) out.ulps = ulps;
  } else if (unit.empty()) {
    double absolute = 0;
    const auto [end, wrong] =
        std::from_chars(number.data(), number.data() + number.size(), absolute);
    const bool read = wrong == std::errc() && end == number.data() + number.size();
    if (read && absolute >= 0 && std::isfinite(absolute)) out.absolute = absolute;
  }
  if (out.given()) return out;
  throw Error(ErrorCode::usage, fmt::format("--tolerance can't be {}", quote(text)))
      .hint("pass an absolute difference such as 0.001, or a number of ulps such as 2ulp");
}

Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return "inf";
}

Json place_json(const ElementPlace& place) {
  Json out = element_place_json(place);
  out["value"] = place.value;
  add_range(place.range, out);
  return out;
}

Json values_json(const ValueDifferences& values) {
  Json out;
  out["count"] = values.count;
  out["first"] = shape_json(values.first);
  out["a"] = place_json(values.a);
  out["b"] = place_json(values.b);
  out["largest_absolute"] = number_json(values.largest_absolute);
  out["largest_ulps"] = values.largest_ulps;
  out["a_nans"] = values.a_nans;
  out["b_nans"] = values.b_nans;
  Json::Array steps;
  for (std::size_t i = 0; i < values.by_ulps.size(); ++i) {
    Json step;
    if (i < kUlpSteps.size()) step["most_ulps"] = kUlpSteps[i];
    step["count"] = values.by_ulps[i];
    steps.push_back(std::move(step));
  }
  out["by_ulps"] = std::move(steps);
  return out;
}

Json damage_json_of(const DiffDamage& damage) {
  Json out;
  out["side"] = damage.in_a ? "a" : "b";
  out["tensor"] = damage.tensor;
  out["message"] = damage.message;
  out["places"] = damage.places;
  if (!damage.file.empty()) out["file"] = damage.file;
  add_range(damage.range, out);
  return out;
}

Json form_json(const TensorDiff::Form& form) {
  Json out;
  out["dtype"] = to_string(form.dtype);
  out["shape"] = shape_json(form.shape);
  return out;
}

Json tensor_json(const TensorDiff& tensor) {
  Json out;
  out["name"] = tensor.name;
  out["kind"] = to_string(tensor.kind);
  if (tensor.a) out["a"] = form_json(*tensor.a);
  if (tensor.b) out["b"] = form_json(*tensor.b);
  if (tensor.values) out["values"] = values_json(*tensor.values);
  for (const DiffDamage& damage : tensor.damage)
    out["damage"].array().push_back(damage_json_of(damage));
  return out;
}

Json checkpoint_json_of(const DiffedCheckpoint& checkpoint) {
  Json out;
  out["path"] = checkpoint.path;
  out["kind"] = checkpoint.kind;
  out["tensors"] = checkpoint.tensors;
  add_steps(checkpoint.step, checkpoint.other_steps, out);
  return out;
}

Json diff_json(const DiffResult& result) {
  Json out;
  out["a"] = checkpoint_json_of(result.a);
  out["b"] = checkpoint_json_of(result.b);
  out["equal"] = result.equal();
  out["through"] = result.through;
  out["notes"] = texts_json(result.notes);
  out["compared_objects"] = result.compared_objects;
  out["structure"] = Json::Array{};
  for (const StructureDiff& item : result.structure) {
    Json entry;
    entry["name"] = item.name;
    entry["kind"] = to_string(item.kind);
    entry["what"] = item.what;
    out["structure"].array().push_back(std::move(entry));
  }
  out["compared_tensors"] = result.compared_tensors;
  out["compared_bytes"] = result.compared_bytes;
  out["differing_tensors"] = result.differing_tensors;
  out["differing_elements"] = result.differing_elements;
  return out;
}

std::string index_text(const Shape& index) {
  return fmt::format("[{}]", fmt::join(index.begin(), index.end(), ", "));
}

// Leaves out facts that the lines above have.
void print_place(char side, const ElementPlace& place, const std::string& name,
                 const Shape& first) {
  std::string line = fmt::format("          {}  {}", side, place.value);
  const bool same = place.tensor == name && place.index == first;
  if (!place.tensor.empty() && !same)
    line += fmt::format(" at {} of {}", index_text(place.index), quote(place.tensor));
  print_line(line);
  if (place.file.empty()) return;
  print_line("             in " + element_place_text(place));
}

std::string form_text(const TensorDiff::Form& form) {
  return fmt::format("{} {}", to_string(form.dtype), to_string(form.shape));
}

void print_values(const TensorDiff& tensor) {
  const ValueDifferences& values = *tensor.values;
  std::string line = fmt::format("          {} of {} elements, first at {}", values.count,
                                 tensor.a->shape.numel(), index_text(values.first));
  print_line(line);
  line.clear();
  if (values.count > values.a_nans && values.count > values.b_nans) {
    line =
        fmt::format("largest difference {}, {} ulp", values.largest_absolute, values.largest_ulps);
  }
  if (values.a_nans + values.b_nans > 0) {
    line += fmt::format("{}{} NaN in A, {} in B", line.empty() ? "" : "; ", values.a_nans,
                        values.b_nans);
  }
  if (!line.empty()) print_line("          " + line);
  print_place('A', values.a, tensor.name, values.first);
  print_place('B', values.b, tensor.name, values.first);
}

void print_tensor(const TensorDiff& tensor) {
  using Kind = TensorDiff::Kind;
  const std::string name = quote(tensor.name);
  switch (tensor.kind) {
    case Kind::equal:
      return print_line(fmt::format("equal     {}", name));
    case Kind::only_a:
      return print_difference("only in A ", fmt::format("{}  {}", name, form_text(*tensor.a)));
    case Kind::only_b:
      return print_difference("only in B ", fmt::format("{}  {}", name, form_text(*tensor.b)));
    case Kind::shape:
    case Kind::dtype:
      print_difference(fmt::format("{:10}", to_string(tensor.kind)), name);
      return print_line(
          fmt::format("          A {}, B {}", form_text(*tensor.a), form_text(*tensor.b)));
    case Kind::values:
    case Kind::damaged:
      break;
  }
  print_difference(tensor.kind == Kind::values ? "differs   " : "damaged   ", name);
  for (const DiffDamage& damage : tensor.damage) {
    print_line(fmt::format("          {}  {}", damage.in_a ? 'A' : 'B', damage.message));
    if (damage.file.empty()) continue;
    std::string line = fmt::format("             in {}", printable(damage.file));
    if (damage.range)
      line += fmt::format(", bytes [{}, {})", damage.range->begin, damage.range->end);
    print_line(line);
  }
  if (tensor.values) print_values(tensor);
}

void print_checkpoint_line(char side, const DiffedCheckpoint& checkpoint) {
  std::string line = fmt::format("{}         {}: {}, {}", side, printable(checkpoint.path),
                                 checkpoint.kind, counted(checkpoint.tensors, "array"));
  if (checkpoint.step) line += ", step " + steps_text(*checkpoint.step, checkpoint.other_steps);
  print_line(line);
}

std::string counts_text(const DiffResult& result) {
  std::array<std::uint64_t, 7> kinds{};
  for (const TensorDiff& tensor : result.tensors) ++kinds[static_cast<std::size_t>(tensor.kind)];
  std::vector<std::string> parts;
  const auto add = [&](TensorDiff::Kind kind, std::string_view what) {
    const std::uint64_t count = kinds[static_cast<std::size_t>(kind)];
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  using Kind = TensorDiff::Kind;
  add(Kind::values, "in values");
  add(Kind::damaged, "damaged");
  add(Kind::dtype, "with another dtype");
  add(Kind::shape, "with another shape");
  add(Kind::only_a, "only in A");
  add(Kind::only_b, "only in B");
  return join(parts, ", ");
}

// Prints how far apart elements are, over all tensors.
void print_histogram(const DiffResult& result) {
  std::array<std::uint64_t, kUlpSteps.size() + 1> sums{};
  for (const TensorDiff& tensor : result.tensors) {
    if (!tensor.values) continue;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += tensor.values->by_ulps[i];
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == 0) continue;
    parts.push_back(i < kUlpSteps.size() ? fmt::format("{} by up to {} ulp", sums[i], kUlpSteps[i])
                                         : fmt::format("{} by more", sums[i]));
  }
  if (!parts.empty()) print_line("apart     " + join(parts, ", "));
}

void print_structure(const DiffResult& result, bool all) {
  if (result.structure.empty()) return;
  print_difference("DIFFERENT ", "structure: " + counted(result.structure.size(), "name"));
  std::size_t shown = 0;
  for (const StructureDiff& item : result.structure) {
    if (!all && shown == kShownTensors) break;
    ++shown;
    const std::string_view word = item.kind == StructureDiff::Kind::only_a   ? "only in A"
                                  : item.kind == StructureDiff::Kind::only_b ? "only in B"
                                                                             : to_string(item.kind);
    const std::string name = item.name.empty() ? std::string() : quote(item.name) + ": ";
    print_line(fmt::format("{:10}{}{}", word, name, item.what));
  }
  if (shown < result.structure.size())
    print_line(fmt::format("and {} more; --all lists them", result.structure.size() - shown));
}

void print_diff(const DiffResult& result, bool all) {
  print_checkpoint_line('A', result.a);
  print_checkpoint_line('B', result.b);
  std::string line = fmt::format("compared  {}, {} each", counted(result.compared_tensors, "array"),
                                 human_bytes(result.compared_bytes));
  if (result.compared_objects > 0) line += ", " + counted(result.compared_objects, "object");
  if (!result.through.empty()) line += "; " + result.through;
  print_line(line);
  if (result.equal()) {
    print_line("equal");
  } else if (result.differing_tensors > 0) {
    std::string found = counted(result.differing_tensors, "array");
    if (result.differing_elements > 0)
      found += fmt::format(", {}", counted(result.differing_elements, "element"));
    print_difference("DIFFERENT ", fmt::format("{}: {}", found, counts_text(result)));
    print_histogram(result);
  }
  print_structure(result, all);
  std::size_t shown = 0;
  for (const TensorDiff& tensor : result.tensors) {
    if (!all && (tensor.kind == TensorDiff::Kind::equal || shown == kShownTensors)) continue;
    if (tensor.kind != TensorDiff::Kind::equal) ++shown;
    print_tensor(tensor);
  }
  if (shown < result.differing_tensors) {
    print_line(fmt::format("and {} more; --all lists them", result.differing_tensors - shown));
  }
}

int run_diff(const Session& session, const DiffFlags& flags) {
  RunOptions run = run_options(session, flags.run);
  DiffOptions options;
  options.tolerance = tolerance_of(flags.tolerance);
  options.dtype_aware = flags.dtype_aware;
  options.include = flags.include;
  options.exclude = flags.exclude;
  const TreeOptions tree = tree_options(flags.tree);
  options.config_text = tree.config_text;
  options.config_name = tree.config_name;
  options.step = tree.step;
  if (flags.items != "all") options.items = flags.items;  // all are compared without it
  run.stop = &watch_interrupts();
  std::error_code unknown;
  const bool of_a = !std::filesystem::exists(flags.a, unknown);
  SourceName a = source_name(session, flags.a, of_a ? flags.revision : "");
  SourceName b = source_name(session, flags.b, of_a ? "" : flags.revision);
  a.hub.stop = b.hub.stop = run.stop;
  a.ignore_index = b.ignore_index = flags.ignore_index;
  const auto progress = make_progress(session);
  DiffResult result = diff(a, b, options, run, *progress);
  progress->finish();
  for (const std::string& note : result.notes) print_note(session, "note: " + note);
  if (session.json) {
    if (!flags.all) {
      std::erase_if(result.tensors, [](const TensorDiff& tensor) {
        return tensor.kind == TensorDiff::Kind::equal;
      });
    }
    print_json_list("diff", diff_json(result), "tensors", result.tensors.size(),
                    [&](std::size_t i) { return tensor_json(result.tensors[i]); });
  } else if (!session.quiet || !result.equal()) {
    print_diff(result, flags.all);
  }
  return result.equal() ? 0 : kDifferent;
}

OptionTable diff_table(DiffFlags& flags) {
  return {{.name = "--include",
           .to = &flags.include,
           .value = "GLOB",
           .group = Group::model,
           .help = "compare only arrays whose name matches GLOB",
           .standard = "all"},
          {.name = "--exclude",
           .to = &flags.exclude,
           .value = "GLOB",
           .group = Group::model,
           .help = "leave out arrays whose name matches GLOB",
           .standard = "nothing"},
          {.name = "--tolerance",
           .to = &flags.tolerance,
           .value = "X|Nulp",
           .group = Group::values,
           .help = "accept differences up to X, or up to N ulps (steps of the dtype)",
           .standard = "equal bits"},
          {.name = "--dtype-aware",
           .to = &flags.dtype_aware,
           .group = Group::values,
           .help = "compare arrays of different dtypes after rounding to the narrower dtype"},
          {.name = "--all",
           .to = &flags.all,
           .help = "print a line for every array",
           .standard = "the first 20 that differ"}};
}

}  // namespace

Command diff_command(Session& session) {
  const auto flags = std::make_shared<DiffFlags>();
  Command out{.name = "diff",
              .summary = "compare two checkpoints of any format: names, dtypes, shapes, elements"};
  const std::string help =
      "Hugging Face directory, .safetensors or PyTorch file, Hub model, Orbax root, step or item "
      "directory, or PyTorch DCP directory";
  out.positionals = {
      {.name = "A", .to = &flags->a, .offer = Offer::file_or_directory, .help = help},
      {.name = "B", .to = &flags->b, .offer = Offer::file_or_directory, .help = "the same"}};
  Option revision = revision_option(flags->revision);
  revision.help =
      "revision of the Hub model; if both are Hub models, of A (write B as hf://ORG/NAME@REV)";
  Option step = step_option(flags->tree.step);
  step.help = "step to read, in A and in B";
  out.options = joined({{std::move(revision), ignore_index_option(flags->ignore_index),
                         std::move(step), items_option(flags->items)},
                        back_table(flags->tree),
                        diff_table(*flags),
                        only(run_table(flags->run), {"--max-memory", "--jobs"}),
                        progress_table(session),
                        common_table(session)});
  std::ranges::find(out.options, "--config", &Option::name)->help =
      "the model's config.json, if neither checkpoint names its model";
  out.examples = {
      {"whether a conversion holds the same values as the model", "hfshard diff Qwen3-8B out"},
      {"differences of more than 2 ulps, except in the norms",
       "hfshard diff Qwen3-8B out --tolerance 2ulp --exclude '*norm*'"},
      {"the same step of two runs", "hfshard diff run resharded --step 1000"},
      {"every array, as JSON", "hfshard diff Qwen3-8B out --all --json"}};
  out.run = [&session, flags] { return run_diff(session, *flags); };
  return out;
}

}  // namespace hfshard
