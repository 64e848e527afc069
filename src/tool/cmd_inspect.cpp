#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"
#include "catalog/catalog.h"
#include "format/formats.h"
#include "run/keeping/linked_files.h"
#include "service/step.h"
#include "tool/cli.h"
#include "tool/inspect.h"
#include "tool/progress.h"
#include "tool/text_table.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Without --data only so many missing chunks are listed; all are counted.
constexpr std::size_t kListedMissing = 20;

struct InspectFlags {
  std::string path;
  bool data = false;
};

Json damage_json(const Damage& damage) {
  Json out;
  out["tensor"] = damage.tensor;
  if (damage.chunk) out["chunk"] = shape_json(*damage.chunk);
  out["code"] = to_string(damage.code);
  out["message"] = damage.message;
  if (!damage.file.empty()) out["file"] = damage.file;
  if (damage.range) {
    out["begin_bytes"] = damage.range->begin;
    out["end_bytes"] = damage.range->end;
  }
  return out;
}

std::string damage_text(const Damage& damage) {
  std::string out = "damaged  " + (damage.tensor.empty() ? "a file" : quote(damage.tensor));
  if (damage.chunk) {
    out += fmt::format(" chunk [{}]", fmt::join(damage.chunk->begin(), damage.chunk->end(), ", "));
  }
  out += ": " + damage.message;
  if (damage.file.empty()) return out;
  out += "\n         in " + printable(damage.file);
  if (damage.range) {
    out += fmt::format(", bytes [{}, {})", damage.range->begin, damage.range->end);
  }
  return out;
}

// What damage means for the command as a whole. Only if all of it is the system's, a retry may
// help.
Error damage_error(const DamageList& found, const InspectFlags& flags) {
  const bool all_io =
      !found.items.empty() && std::ranges::all_of(found.items, [](const Damage& damage) {
        return damage.code == ErrorCode::io;
      });
  Error error(all_io ? ErrorCode::io : ErrorCode::corrupt,
              fmt::format("{}{} of {} {} are missing or damaged", found.more ? "more than " : "",
                          found.count, found.checked, found.unit));
  error.in_file(flags.path);
  if (!flags.data) error.hint("inspect --data reads the data too and lists everything");
  return error;
}

std::string fact_text(const Json& value) {
  if (value.is_string()) return value.as_string();
  if (!value.is_array()) return dump_json(value);
  std::vector<std::string> parts;
  for (const Json& part : value.as_array()) parts.push_back(fact_text(part));
  return join(parts, ", ");
}

// `hfshard.plan_id` of nested custom metadata as a line of its own.
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
  for (const auto& [name, value] : facts) width = std::max(width, printable(name).size());
  for (const auto& [name, value] : facts) {
    print_line(fmt::format("{:<{}}  {}", printable(name), width, printable(value)));
  }
}

void print_damage(const DamageList& found) {
  for (const Damage& damage : found.items) print_line(damage_text(damage));
}

// Ends the command: prints what was found wrong, or the object; returns the exit status.
int finish(Json object, const DamageList& found, const InspectFlags& flags,
           const Session& session) {
  if (!session.json) {
    print_damage(found);
    if (found.count > 0) throw damage_error(found, flags);
    return 0;
  }
  Json::Array damaged;
  for (const Damage& damage : found.items) damaged.push_back(damage_json(damage));
  object["damaged"] = std::move(damaged);
  object["damaged_count"] = found.count;
  object["data_read"] = flags.data;
  int status = 0;
  if (found.count > 0) {
    const Error error = damage_error(found, flags);
    object["error"]["code"] = to_string(error.code());
    object["error"]["message"] = error.sentence();
    object["error"]["file"] = error.file();
    status = exit_status(error.code());
  }
  print_json("inspect", std::move(object));
  return status;
}

std::uint64_t array_bytes(const Array& array) {
  return packed_bytes(array.dtype, array.shape.numel());
}

struct Totals {
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;
};

Totals totals_of(const Catalog& catalog) {
  Totals out;
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    out.bytes += array_bytes(catalog.tensors[i]);
    out.chunks += chunk_total(catalog, i);
  }
  return out;
}

// What the format keeps beside the arrays, and what the model's config says.
Json metadata_of(const Catalog& catalog) {
  Json out = config_facts(catalog);
  if (!catalog.attributes.is_object()) return out;
  for (const auto& [key, value] : catalog.attributes.as_object()) out[key] = value;
  return out;
}

Json array_json(const Catalog& catalog, std::uint32_t i) {
  const TensorInfo& array = catalog.tensors[i];
  Json item;
  item[catalog.wording.name] = array.name;
  item["dtype"] = to_string(array.dtype);
  item["shape"] = shape_json(array.shape);
  item["size_bytes"] = array_bytes(array);
  if (catalog.wording.has_cuts) {
    const Grid grid = catalog.grid_of(i);
    item["chunk"] = shape_json(grid.chunk);
    if (grid.has_inner()) item["inner"] = shape_json(grid.inner);
    item["chunks"] = chunk_total(catalog, i);
    Json::Array codecs;
    for (const std::string& codec : catalog.codecs_of(i)) codecs.emplace_back(codec);
    item["codecs"] = std::move(codecs);
  }
  if (catalog.wording.has_files) {
    item["file"] = catalog.files[array.file].name;
    item["begin_bytes"] = array.begin_bytes;
  }
  return item;
}

Json catalog_json(const Catalog& catalog) {
  const Wording& wording = catalog.wording;
  const Totals totals = totals_of(catalog);
  Json out;
  out["kind"] = wording.kind;
  Json::Array arrays;
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i)
    arrays.push_back(array_json(catalog, i));
  out[wording.arrays] = std::move(arrays);
  out["size_bytes"] = totals.bytes;
  if (wording.has_cuts) out["chunks"] = totals.chunks;
  if (wording.has_files) {
    Json::Array files;
    for (const CatalogFile& file : catalog.files) {
      Json item;
      item["name"] = file.name;
      item["size_bytes"] = file.size_bytes;
      files.push_back(std::move(item));
    }
    out["files"] = std::move(files);
  }
  out["metadata"] = metadata_of(catalog);
  return out;
}

TextTable array_table(const Catalog& catalog) {
  const Wording& wording = catalog.wording;
  const bool has_inner =
      std::ranges::any_of(catalog.cuts, [](const Cut& cut) { return cut.grid.has_inner(); });
  std::vector<std::string> heading{wording.array, "dtype", "shape"};
  if (wording.has_cuts) heading.emplace_back("chunk");
  if (has_inner) heading.emplace_back("inner chunk");
  if (wording.has_cuts) heading.emplace_back("chunks");
  heading.emplace_back("bytes");
  if (wording.has_files) heading.emplace_back("file");
  TextTable table(std::move(heading));
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    const TensorInfo& array = catalog.tensors[i];
    const Grid grid = catalog.grid_of(i);
    std::vector<std::string> row{printable(array.name), std::string(to_string(array.dtype)),
                                 to_string(array.shape)};
    if (wording.has_cuts) row.push_back(to_string(grid.chunk));
    if (has_inner) row.push_back(to_string(grid.inner));
    if (wording.has_cuts) row.push_back(std::to_string(chunk_total(catalog, i)));
    row.push_back(human_bytes(array_bytes(array)));
    if (wording.has_files) row.push_back(printable(catalog.files[array.file].name));
    table.add(std::move(row));
  }
  return table;
}

void print_catalog(const Catalog& catalog, const std::string& path) {
  const Wording& wording = catalog.wording;
  const Totals totals = totals_of(catalog);
  print_line(wording.kind + " checkpoint " + printable(path));
  for (const std::string& line : array_table(catalog).lines()) print_line(line);
  std::string counts = fmt::format("{} {}", catalog.tensors.size(), wording.arrays);
  if (wording.has_cuts) counts += fmt::format(", {} chunks", totals.chunks);
  if (wording.has_files) {
    counts +=
        fmt::format(", {} file{}", catalog.files.size(), catalog.files.size() == 1 ? "" : "s");
  }
  print_line(fmt::format("{}, {} ({} bytes)", counts, human_bytes(totals.bytes), totals.bytes));
  std::vector<std::pair<std::string, std::string>> facts;
  if (wording.has_cuts) {
    std::set<std::string> codecs;
    for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i)
      codecs.insert(printable(join(catalog.codecs_of(i), " + ")));
    facts.emplace_back("codecs", join({codecs.begin(), codecs.end()}, "; "));
  }
  add_metadata_lines("", metadata_of(catalog), facts);
  print_facts(facts);
}

// Bytes of linked files have no checksums; what says that a file changed is its time.
void add_link_damage(const std::string& path, DamageList& found) {
  const std::string step = step_directory(path);
  if (step.empty()) return;
  for (const LinkFinding& link : check_links(step)) {
    found.items.push_back(
        {"", std::nullopt, ErrorCode::corrupt, link.what, link.file, std::nullopt});
    ++found.count;
  }
}

int inspect(const InspectFlags& flags, const Session& session) {
  const std::unique_ptr<Checkpoint> opened = open_checkpoint(flags.path);
  const Catalog& catalog = opened->catalog();
  for (const std::string& note : catalog.notes) print_note(session, note);
  if (!session.json) print_catalog(catalog, flags.path);
  DamageList found;
  if (flags.data) {
    found = read_chunks(*opened, flags.path, *make_progress(session.quiet));
    add_link_damage(flags.path, found);
  } else {
    found = find_missing_chunks(*opened, kListedMissing);
  }
  Json object;
  if (session.json) object = catalog_json(catalog);
  return finish(std::move(object), found, flags, session);
}

}  // namespace

void add_inspect_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "inspect", "show what is in a checkpoint: names, shapes, dtypes, chunks, metadata");
  const auto flags = std::make_shared<InspectFlags>();
  command
      ->add_option(
          "PATH", flags->path,
          "HuggingFace directory, .safetensors file, or Orbax root, step or item directory")
      ->required();
  command->add_flag("--data", flags->data,
                    "read all data too and list whatever is damaged (default metadata only)");
  add_common_flags(*command, session);
  command->callback(
      [flags, &session] { session.run = [flags, &session] { return inspect(*flags, session); }; });
}

}  // namespace hfshard
