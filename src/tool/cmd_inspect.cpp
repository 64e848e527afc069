#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "run/links.h"
#include "tool/cli.h"
#include "tool/inspect.h"
#include "tool/progress.h"
#include "tool/text_table.h"

#include "hfshard/catalog.h"
#include "hfshard/error.h"

namespace hfshard {
namespace {

// Without --data only so many missing chunks are listed; all are counted.
constexpr std::size_t kListedMissing = 20;

struct InspectFlags {
  std::string path;
  bool data = false;
};

Json shape_json(const Shape& shape) {
  Json::Array out;
  for (const std::uint64_t extent : shape) out.emplace_back(extent);
  return out;
}

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

// -- Orbax

std::uint64_t leaf_bytes(const OpenedLeaf& leaf) {
  return packed_bytes(leaf.dtype, leaf.shape.numel());
}

Json orbax_json(const OpenedCheckpoint& opened) {
  Json::Array leaves;
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;
  for (const OpenedLeaf& leaf : opened.leaves()) {
    Json item;
    item["path"] = leaf.path;
    item["dtype"] = to_string(leaf.dtype);
    item["shape"] = shape_json(leaf.shape);
    item["chunk"] = shape_json(leaf.chunk_shape);
    if (!(leaf.inner_shape == leaf.chunk_shape)) item["inner"] = shape_json(leaf.inner_shape);
    item["chunks"] = chunk_total(leaf);
    item["size_bytes"] = leaf_bytes(leaf);
    Json::Array codecs;
    for (const std::string& codec : leaf.codecs) codecs.emplace_back(codec);
    item["codecs"] = std::move(codecs);
    leaves.push_back(std::move(item));
    bytes += leaf_bytes(leaf);
    chunks += chunk_total(leaf);
  }
  Json out;
  out["kind"] = "orbax";
  out["leaves"] = std::move(leaves);
  out["chunks"] = chunks;
  out["size_bytes"] = bytes;
  out["metadata"] = opened.custom_metadata();
  return out;
}

void print_orbax(const OpenedCheckpoint& opened, const std::string& path) {
  const std::vector<OpenedLeaf>& leaves = opened.leaves();
  const bool inner = std::ranges::any_of(
      leaves, [](const OpenedLeaf& leaf) { return !(leaf.inner_shape == leaf.chunk_shape); });
  std::vector<std::string> heading{"leaf", "dtype", "shape", "chunk"};
  if (inner) heading.emplace_back("inner chunk");
  heading.insert(heading.end(), {"chunks", "bytes"});
  TextTable table(std::move(heading));
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;
  std::set<std::string> codecs;
  for (const OpenedLeaf& leaf : leaves) {
    std::vector<std::string> row{printable(leaf.path), std::string(to_string(leaf.dtype)),
                                 to_string(leaf.shape), to_string(leaf.chunk_shape)};
    if (inner) row.push_back(to_string(leaf.inner_shape));
    row.push_back(std::to_string(chunk_total(leaf)));
    row.push_back(human_bytes(leaf_bytes(leaf)));
    table.add(std::move(row));
    bytes += leaf_bytes(leaf);
    chunks += chunk_total(leaf);
    codecs.insert(printable(join(leaf.codecs, " + ")));
  }
  print_line("orbax checkpoint " + printable(path));
  for (const std::string& line : table.lines()) print_line(line);
  print_line(fmt::format("{} leaves, {} chunks, {} ({} bytes)", leaves.size(), chunks,
                         human_bytes(bytes), bytes));
  std::vector<std::pair<std::string, std::string>> facts{
      {"codecs", join({codecs.begin(), codecs.end()}, "; ")}};
  if (opened.custom_metadata().is_object()) {
    add_metadata_lines("", opened.custom_metadata(), facts);
  }
  print_facts(facts);
}

// Chunks of linked files have no checksums; what says that a file changed is its time.
void add_link_damage(const std::string& path, DamageList& found) {
  const std::string step = step_directory(path);
  if (step.empty()) return;
  for (const LinkFinding& link : check_links(step)) {
    found.items.push_back(
        {"", std::nullopt, ErrorCode::corrupt, link.what, link.file, std::nullopt});
    ++found.count;
  }
}

int inspect_orbax(const InspectFlags& flags, const Session& session) {
  const std::unique_ptr<OpenedCheckpoint> opened = open_orbax(flags.path);
  if (!session.json) print_orbax(*opened, flags.path);
  DamageList found;
  if (flags.data) {
    found = read_chunks(*opened, flags.path, *make_progress(session.quiet));
    add_link_damage(flags.path, found);
  } else {
    found = find_missing_chunks(*opened, kListedMissing);
  }
  Json object;
  if (session.json) object = orbax_json(*opened);
  return finish(std::move(object), found, flags, session);
}

// -- HuggingFace

Json huggingface_json(const Catalog& catalog) {
  Json::Array tensors;
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : catalog.tensors) {
    Json item;
    item["name"] = tensor.name;
    item["dtype"] = to_string(tensor.dtype);
    item["shape"] = shape_json(tensor.shape);
    item["file"] = catalog.files[tensor.file].name;
    item["begin_bytes"] = tensor.begin_bytes;
    item["size_bytes"] = tensor.size_bytes;
    bytes += tensor.size_bytes;
    tensors.push_back(std::move(item));
  }
  Json out;
  out["kind"] = "huggingface";
  out["tensors"] = std::move(tensors);
  Json::Array files;
  for (const CatalogFile& file : catalog.files) {
    Json item;
    item["name"] = file.name;
    item["size_bytes"] = file.size_bytes;
    files.push_back(std::move(item));
  }
  out["files"] = std::move(files);
  out["size_bytes"] = bytes;
  out["metadata"] = config_facts(catalog);
  return out;
}

void print_huggingface(const Catalog& catalog, const std::string& path) {
  TextTable table({"tensor", "dtype", "shape", "bytes", "file"});
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : catalog.tensors) {
    table.add({printable(tensor.name), std::string(to_string(tensor.dtype)),
               to_string(tensor.shape), human_bytes(tensor.size_bytes),
               printable(catalog.files[tensor.file].name)});
    bytes += tensor.size_bytes;
  }
  print_line("huggingface checkpoint " + printable(path));
  for (const std::string& line : table.lines()) print_line(line);
  print_line(fmt::format("{} tensors, {} file{}, {} ({} bytes)", catalog.tensors.size(),
                         catalog.files.size(), catalog.files.size() == 1 ? "" : "s",
                         human_bytes(bytes), bytes));
  std::vector<std::pair<std::string, std::string>> facts;
  add_metadata_lines("", config_facts(catalog), facts);
  print_facts(facts);
}

int inspect_huggingface(const InspectFlags& flags, const Session& session) {
  const Catalog catalog = open_catalog(flags.path);
  for (const std::string& note : catalog.notes) print_note(session, note);
  if (!session.json) print_huggingface(catalog, flags.path);
  DamageList found;
  if (flags.data) found = read_tensors(catalog, *make_progress(session.quiet));
  Json object;
  if (session.json) object = huggingface_json(catalog);
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
  command->callback([flags, &session] {
    session.run = [flags, &session] {
      return is_orbax(flags->path) ? inspect_orbax(*flags, session)
                                   : inspect_huggingface(*flags, session);
    };
  });
}

}  // namespace hfshard
