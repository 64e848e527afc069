#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"
#include "tool/cli.h"
#include "tool/error_report.h"
#include "tool/fields.h"
#include "tool/hub_flags.h"
#include "tool/plan_flags.h"
#include "tool/progress.h"
#include "tool/steps.h"
#include "tool/text_table.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

struct InspectFlags {
  std::string path;
  std::string revision;
  bool ignore_index = false;
  std::optional<std::uint64_t> step;
  std::string items;
  std::string filter;
  bool data = false;
  bool summary = false;
  bool chunks = false;
  LoadFlags load;
  std::vector<std::string> axes;
  std::string rules_file;
};

Json damage_json(const Damage& damage) {
  Json out;
  out["tensor"] = damage.tensor;
  if (damage.chunk) out["chunk"] = shape_json(*damage.chunk);
  out["code"] = to_string(damage.code);
  out["message"] = damage.message;
  if (!damage.file.empty()) out["file"] = damage.file;
  add_range(damage.range, out);
  return out;
}

void print_damage(const Damage& damage) {
  std::string out = "damaged  " + (damage.tensor.empty() ? "a file" : quote(damage.tensor));
  if (damage.chunk) {
    out += fmt::format(" chunk [{}]", fmt::join(damage.chunk->begin(), damage.chunk->end(), ", "));
  }
  print_line(out + ": " + damage.message);
  if (damage.file.empty()) return;
  std::string where = "         in " + printable(damage.file);
  if (damage.range)
    where += fmt::format(", bytes [{}, {})", damage.range->begin, damage.range->end);
  print_line(where);
}

// Returns the command's error for the damage found. A retry may help only if the system caused all
// of it.
Error damage_error(const DamageList& found, const InspectFlags& flags) {
  const bool all_io =
      !found.items.empty() && std::ranges::all_of(found.items, [](const Damage& damage) {
        return damage.code == ErrorCode::io;
      });
  Error error(all_io ? ErrorCode::io : ErrorCode::corrupt,
              fmt::format("{}{} of {} {} are missing or damaged", found.more ? "more than " : "",
                          found.count, found.checked, found.unit));
  error.in_file(flags.path);
  if (!flags.data) error.hint("run inspect --data to read all data and list all damage");
  return error;
}

// Returns the command's error, if any. Arrays that can't be read matter only if all data is to be
// read. Otherwise the report names them.
std::optional<Error> error_of(const InspectReport& report, const InspectFlags& flags) {
  if (report.damage.count > 0) return damage_error(report.damage, flags);
  const std::vector<UnreadableArray>& left = report.checkpoint.unreadable;
  if (!flags.data || left.empty()) return std::nullopt;
  Error error(ErrorCode::unsupported, left.front().why);
  error.in_file(flags.path).in_tensor(left.front().name);
  if (left.size() > 1)
    error.hint(fmt::format("{} more can't be read; the list above has all", left.size() - 1));
  return error;
}

std::string fact_text(const Json& value) {
  if (value.is_string()) return value.as_string();
  if (!value.is_array()) return shown_json(value);
  std::vector<std::string> parts;
  for (const Json& part : value.as_array()) parts.push_back(fact_text(part));
  return join(parts, ", ");
}

// Adds nested custom metadata as lines such as `hfshard.plan_id`.
void add_metadata_lines(const std::string& prefix, const Json& json,
                        std::vector<std::pair<std::string, std::string>>& out) {
  for (const auto& [key, value] : json.as_object()) {
    if (value.is_object()) {
      add_metadata_lines(prefix + key + ".", value, out);
    } else {
      out.emplace_back(prefix + key, fact_text(value));
    }
  }
}

void print_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::size_t width = 0;
  for (const auto& [name, value] : facts) width = std::max(width, display_width(printable(name)));
  const std::size_t columns = file_columns(STDOUT_FILENO);
  for (const auto& [name, value] : facts) {
    const std::string shown = printable(name);
    const std::string text = printable(value);
    const std::string line =
        fmt::format("{}{:{}}{}", shown, "", width - display_width(shown) + 2, text);
    if (display_width(line) <= columns) {
      print_line(line);
    } else {  // whole, so that it can be copied
      print_line(shown);
      print_line("  " + text);
    }
  }
}

Json piece_json(const StoredPiece& piece) {
  Json out;
  out["place"] = shape_json(piece.place);
  out["stored"] = piece.range.has_value();
  if (!piece.file.empty()) out["file"] = piece.file;
  add_range(piece.range, out);
  return out;
}

Json array_json(const CheckpointInfo& checkpoint, const StoredArray& array) {
  const Wording& wording = checkpoint.wording;
  Json item;
  item[wording.name] = array.name;
  item["dtype"] = to_string(array.dtype);
  item["shape"] = shape_json(array.shape);
  item["size_bytes"] = array.size_bytes;
  if (wording.has_cuts) {
    item["chunk"] = shape_json(array.chunk);
    if (array.inner) item["inner"] = shape_json(*array.inner);
    item["chunks"] = array.chunks;
    Json::Array codecs;
    for (const std::string& codec : array.codecs) codecs.emplace_back(codec);
    item["codecs"] = std::move(codecs);
  }
  if (wording.has_files) {
    item["file"] = checkpoint.files[array.file].name;
    item["begin_bytes"] = array.begin_bytes;
  }
  for (const StoredPiece& piece : array.pieces) item["pieces"].array().push_back(piece_json(piece));
  return item;
}

Json checkpoint_json(const CheckpointInfo& checkpoint, bool summary) {
  const Wording& wording = checkpoint.wording;
  Json out;
  out["kind"] = wording.kind;
  if (!checkpoint.writer.empty()) out["writer"] = checkpoint.writer;
  add_steps(checkpoint.step, checkpoint.other_steps, out);
  Json::Array arrays;
  for (const StoredArray& array : checkpoint.arrays)
    arrays.push_back(array_json(checkpoint, array));
  if (!summary) out[wording.arrays] = std::move(arrays);
  out["arrays"] = std::uint64_t{checkpoint.arrays.size()};
  out["elements"] = checkpoint.elements;
  out["parameters"] = checkpoint.parameters;
  out["optimizer_elements"] = checkpoint.optimizer_elements;
  out["size_bytes"] = checkpoint.size_bytes;
  if (wording.has_cuts) out["chunks"] = checkpoint.chunks;
  for (const UnreadableArray& array : checkpoint.unreadable) {
    Json item;
    item[wording.name] = array.name;
    item["message"] = array.why;
    out["unreadable"].array().push_back(std::move(item));
  }
  if (wording.has_files) {
    Json::Array files;
    for (const StoredFile& file : checkpoint.files) {
      Json item;
      item["name"] = file.name;
      item["size_bytes"] = file.size_bytes;
      files.push_back(std::move(item));
    }
    out["files"] = std::move(files);
  }
  out["metadata"] = parse_json(checkpoint.metadata, "metadata");
  return out;
}

TextTable array_table(const CheckpointInfo& checkpoint) {
  const Wording& wording = checkpoint.wording;
  const bool has_inner = std::ranges::any_of(
      checkpoint.arrays, [](const StoredArray& array) { return array.inner.has_value(); });
  std::vector<std::string> heading{wording.array, "dtype", "shape"};
  if (wording.has_cuts) heading.emplace_back("chunk");
  if (wording.has_cuts) heading.emplace_back("chunks");
  heading.emplace_back("bytes");
  if (has_inner) heading.emplace_back("inner chunk");
  if (wording.has_files) heading.emplace_back("file");
  TextTable table(std::move(heading));
  for (const StoredArray& array : checkpoint.arrays) {
    std::vector<std::string> row{printable(array.name), std::string(to_string(array.dtype)),
                                 to_string(array.shape)};
    if (wording.has_cuts) row.push_back(to_string(array.chunk));
    if (wording.has_cuts) row.push_back(std::to_string(array.chunks));
    row.push_back(human_bytes(array.size_bytes));
    if (has_inner) row.push_back(to_string(array.inner.value_or(array.chunk)));
    if (wording.has_files) row.push_back(printable(checkpoint.files[array.file].name));
    table.add(std::move(row));
  }
  return table;
}

TextTable piece_table(const CheckpointInfo& checkpoint) {
  TextTable table({checkpoint.wording.array, "chunk", "bytes", "from", "to", "file"});
  for (const StoredArray& array : checkpoint.arrays) {
    for (const StoredPiece& piece : array.pieces) {
      std::vector<std::string> row{
          printable(array.name),
          fmt::format("[{}]", fmt::join(piece.place.begin(), piece.place.end(), ", "))};
      if (piece.range) {
        row.push_back(human_bytes(piece.range->end - piece.range->begin));
        row.push_back(std::to_string(piece.range->begin));
        row.push_back(std::to_string(piece.range->end));
        row.push_back(printable(piece.file));
      } else {
        row.emplace_back("not stored");
      }
      table.add(std::move(row));
    }
  }
  return table;
}

std::vector<std::pair<std::string, std::string>> facts_of(const CheckpointInfo& checkpoint) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (!checkpoint.writer.empty()) facts.emplace_back("written by", checkpoint.writer);
  facts.emplace_back("elements", std::to_string(checkpoint.elements));
  std::string parameters = std::to_string(checkpoint.parameters);
  if (const std::string shown = human_count(checkpoint.parameters); shown != parameters)
    parameters += fmt::format(" ({})", shown);
  facts.emplace_back("parameters", std::move(parameters));
  if (checkpoint.optimizer_elements > 0)
    facts.emplace_back("optimizer", std::to_string(checkpoint.optimizer_elements) + " elements");
  if (checkpoint.wording.has_cuts) {
    std::set<std::string> codecs;
    for (const StoredArray& array : checkpoint.arrays)
      codecs.insert(array.codecs.empty() ? "none" : printable(join(array.codecs, " + ")));
    if (!codecs.empty()) facts.emplace_back("codecs", join({codecs.begin(), codecs.end()}, "; "));
  }
  add_metadata_lines("", parse_json(checkpoint.metadata, "metadata"), facts);
  return facts;
}

void print_checkpoint(const CheckpointInfo& checkpoint, const InspectFlags& flags) {
  const Wording& wording = checkpoint.wording;
  print_line(wording.kind + " checkpoint " + printable(checkpoint.path));
  if (checkpoint.step) print_line("step " + steps_text(*checkpoint.step, checkpoint.other_steps));
  if (!flags.summary)
    print_table(flags.chunks ? piece_table(checkpoint) : array_table(checkpoint), 2);
  std::string counts = counted(checkpoint.arrays.size(), wording.array, wording.arrays);
  if (wording.has_cuts) counts += ", " + counted(checkpoint.chunks, "chunk");
  if (wording.has_files) counts += ", " + counted(checkpoint.files.size(), "file");
  print_line(fmt::format("{}, {} ({} bytes)", counts, human_bytes(checkpoint.size_bytes),
                         checkpoint.size_bytes));
  print_facts(facts_of(checkpoint));
}

Json report_json(const InspectReport& report, const InspectFlags& flags) {
  Json out = checkpoint_json(report.checkpoint, flags.summary);
  Json::Array damaged;
  for (const Damage& damage : report.damage.items) damaged.push_back(damage_json(damage));
  out["damaged"] = std::move(damaged);
  out["damaged_count"] = report.damage.count;
  out["data_read"] = flags.data;
  if (!report.loads.empty()) out["loads"] = loads_json(report.loads);
  if (const std::optional<Error> error = error_of(report, flags)) out["error"] = error_json(*error);
  return out;
}

void print_report(const InspectReport& report, const InspectFlags& flags) {
  print_checkpoint(report.checkpoint, flags);
  for (const LoadReport& load : report.loads) {
    for (const Field& field : load_fields(load)) print_field(field);
  }
  for (const UnreadableArray& array : report.checkpoint.unreadable)
    print_line(fmt::format("can't read  {}: {}", quote(array.name), array.why));
  for (const Damage& damage : report.damage.items) print_damage(damage);
}

int run_inspect(const InspectFlags& flags, const Session& session) {
  const auto progress = make_progress(session);
  SourceName name = source_name(session, flags.path, flags.revision);
  name.step = flags.step;
  name.items = flags.items;
  name.ignore_index = flags.ignore_index;
  InspectOptions options{flags.data, flags.chunks, flags.filter};
  options.load_meshes = flags.load.meshes;
  options.devices_per_host = flags.load.devices_per_host;
  options.axes = flags.axes;
  if (!flags.rules_file.empty()) {
    options.rules_text = read_file(flags.rules_file);
    options.rules_name = flags.rules_file;
  }
  const InspectReport report = inspect(name, options, *progress);
  progress->finish();
  if (session.json) {
    print_json("inspect", report_json(report, flags));
    const std::optional<Error> error = error_of(report, flags);
    return error ? exit_status(error->code()) : 0;
  }
  print_report(report, flags);
  if (std::optional<Error> error = error_of(report, flags)) throw *std::move(error);
  return 0;
}

OptionTable load_axes_table(InspectFlags& flags) {
  return {{.name = "--axes",
           .to = &flags.axes,
           .value = "GLOB=AXIS,...",
           .group = Group::load,
           .help = "logical axes of the arrays that match, if the checkpoint doesn't record them"},
          {.name = "--rules",
           .to = &flags.rules_file,
           .value = "FILE",
           .offer = Offer::file,
           .group = Group::load,
           .help = "JSON file of logical axis rules",
           .standard = "MaxText's"}};
}

}  // namespace

Command inspect_command(Session& session) {
  const auto flags = std::make_shared<InspectFlags>();
  Command out{.name = "inspect",
              .summary = "show what a checkpoint holds: names, shapes, dtypes, chunks, metadata"};
  out.positionals = {{.name = "PATH",
                      .to = &flags->path,
                      .offer = Offer::file_or_directory,
                      .help = "Hugging Face directory, .safetensors or PyTorch file, Hub model, "
                              "Orbax root, step or item directory, or PyTorch DCP directory"}};
  out.options = joined({{revision_option(flags->revision),
                         ignore_index_option(flags->ignore_index),
                         step_option(flags->step),
                         items_option(flags->items),
                         {.name = "--filter",
                          .to = &flags->filter,
                          .value = "GLOB",
                          .help = "show only names that match GLOB",
                          .standard = "all"},
                         {.name = "--summary",
                          .to = &flags->summary,
                          .help = "print totals, without a line for each array"},
                         {.name = "--chunks",
                          .to = &flags->chunks,
                          .help = "show the file and byte range of each chunk"},
                         {.name = "--data",
                          .to = &flags->data,
                          .group = Group::run,
                          .help = "read all data and list all damage",
                          .standard = "metadata only"}},
                        load_table(flags->load),
                        load_axes_table(*flags),
                        progress_table(session),
                        common_table(session)});
  out.examples = {
      {"an Orbax checkpoint", "hfshard inspect out"},
      {"what each of 4 hosts reads when it loads the checkpoint",
       "hfshard inspect out --summary --load-mesh fsdp=4"},
      {"a Hugging Face checkpoint, with all its data", "hfshard inspect Qwen3-8B --data"},
      {"where one step stores its embedding",
       "hfshard inspect out --step 0 --filter '*embedding*' --chunks"},
      {"as JSON", "hfshard inspect out/0/items --json"}};
  out.run = [flags, &session] { return run_inspect(*flags, session); };
  return out;
}

}  // namespace hfshard
