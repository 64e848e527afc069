#include "format/hf_open.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "format/hf_copies.h"
#include "format/hf_index.h"
#include "format/hf_repo.h"

namespace hfshard::format {

namespace {

// Returns a location as the name of a model if it has the form `org/name`, `hf:org/name` or
// `org/name:revision`. Otherwise empty.
std::string hub_name(std::string_view location) {
  if (location.starts_with("hf:")) location.remove_prefix(3);
  std::string name(location);
  if (const std::size_t colon = name.find(':'); colon != std::string::npos) name[colon] = '@';
  const std::vector<std::string> parts = split(name, '/');
  const bool fits = parts.size() == 2 && std::ranges::all_of(parts, [](const std::string& part) {
                      return !part.empty() && part[0] != '.' && part[0] != '~' &&
                             part.find_first_of(" \\:") == std::string::npos;
                    });
  return fits ? name : std::string();
}

[[noreturn]] void throw_no_location(const StorePath& location,
                                    const std::optional<StoreEntry>& found) {
  if (found && found->why) throw Error(*found->why);
  Error error(ErrorCode::not_found, "no such file or directory");
  error.in_file(location.text());
  if (const std::string model = hub_name(location.name());
      !model.empty() && !location.parent().exists()) {
    error.hint("for the Hub model of this name, pass hf://" + model);
  } else if (found) {
    error.hint(broken_link_hint(location.name()));
  } else {
    error.hint(tilde_hint(location.name()));
  }
  throw error;
}

// Reads the header of one more file.
void add_file(Catalog& catalog, StorePath path, std::string name, const HeaderReader& read,
              bool despite_loss) {
  WeightHeader header = read(path, despite_loss);
  const auto id = static_cast<std::uint32_t>(catalog.files.size());
  catalog.files.push_back({std::move(path), std::move(name), header.identity.size_bytes,
                           std::move(header.identity.version), std::move(header.sha256),
                           std::move(header.identity.inodes)});
  std::ranges::move(header.unreadable, std::back_inserter(catalog.unreadable));
  std::ranges::move(header.shared, std::back_inserter(catalog.shared));
  for (TensorInfo& tensor : header.tensors) {
    tensor.file = id;
    catalog.tensors.push_back(std::move(tensor));
  }
  if (header.metadata.empty()) return;
  std::string note = fmt::format("neither read nor copied: {} in the metadata of the files",
                                 quoted_list(header.metadata));
  if (std::ranges::find(catalog.notes, note) == catalog.notes.end())
    catalog.notes.push_back(std::move(note));
}

[[noreturn]] void throw_absent(const Catalog& catalog, const std::string& name,
                               std::uint32_t file) {
  Error error(ErrorCode::bad_input, "the index places the tensor in a file that lacks it");
  error.in_file(catalog.files[file].path.text()).in_tensor(name);
  if (const auto found = catalog.find(name)) {
    error.hint(
        fmt::format("it is in {}; the index and the files may belong to different revisions; {}",
                    quote(catalog.files[catalog.tensors[*found].file].name), kIgnoreIndexHint));
  } else {
    error.hint(fmt::format("the index and the files may belong to different revisions; {}",
                           kIgnoreIndexHint));
  }
  throw error;
}

// Returns whether a header describes the tensor in a way that can't be read. Requires the catalog's
// list to be sorted.
bool is_unreadable(const Catalog& catalog, const std::string& name) {
  return std::ranges::binary_search(catalog.unreadable, name, {}, &UnreadableArray::name);
}

// Requires all lists to be sorted by name, those of readable tensors without duplicates.
void check_against_index(const Catalog& catalog, HfIndex index) {
  if (!catalog.unreadable.empty())
    std::erase_if(index.tensors,
                  [&](const auto& listed) { return is_unreadable(catalog, listed.first); });
  auto listed = index.tensors.begin();
  for (const TensorInfo& tensor : catalog.tensors) {
    if (listed != index.tensors.end() && listed->first < tensor.name) {
      throw_absent(catalog, listed->first, listed->second);
    }
    if (listed == index.tensors.end() || listed->first != tensor.name) {
      throw Error(ErrorCode::bad_input, "the file holds a tensor that the index doesn't list")
          .in_file(catalog.files[tensor.file].path.text())
          .in_tensor(tensor.name)
          .at(tensor.range(), catalog.files[tensor.file].size_bytes)
          .hint(fmt::format("the index and the files may belong to different revisions; {}",
                            kIgnoreIndexHint));
    }
    if (listed->second != tensor.file) throw_absent(catalog, tensor.name, listed->second);
    ++listed;
  }
  if (listed != index.tensors.end()) throw_absent(catalog, listed->first, listed->second);
}

// Opens the existing files of a directory. Arrays in missing files have no shape.
Catalog open_remains(const StorePath& location, const std::vector<std::string>& entries,
                     const WeightFiles& kind, const HeaderReader& read) {
  Catalog catalog;
  catalog.location = location.text();
  catalog.directory = location;
  std::vector<std::string> names;
  std::optional<HfIndex> index;
  if (std::ranges::binary_search(entries, kind.index()))
    index = read_hf_index(location / kind.index(), kind);
  if (index) names = index->files;
  if (names.empty()) {
    names = entries;
    std::erase_if(names, [&](const std::string& name) { return !name.ends_with(kind.ending); });
  }
  for (const std::string& name : names) {
    try {
      add_file(catalog, location / name, name, read, true);
    } catch (const Error& error) {  // the other files are read anyway
      if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
      catalog.lost.push_back(error);
    }
  }
  sort_tensors(catalog, index ? &*index : nullptr, kind);
  return catalog;
}

// Notes the PyTorch files of a model that also has safetensors files, which hfshard prefers.
void note_other_weights(const std::vector<std::string>& entries, const WeightFiles& kind,
                        Catalog& catalog) {
  if (kind.kind != kSafetensorsFiles.kind) return;
  std::vector<std::string> others;
  for (const std::string& name : entries) {
    if (name.starts_with(kTorchFiles.stem) && name.ends_with(kTorchFiles.ending))
      others.push_back(name);
  }
  if (others.empty()) return;
  catalog.notes.push_back(
      fmt::format("hfshard read the safetensors files instead of {}", quoted_list(others, 3)));
}

Catalog open_directory(const StorePath& location, std::vector<std::string> entries,
                       const FileGlobs& globs, const WeightFiles& kind, const HeaderReader& read) {
  const std::vector<std::string> left = leave_files(location, globs, kind, entries);
  Catalog catalog;
  catalog.location = location.text();
  catalog.directory = location;
  HfIndex index;
  HfFiles chosen;
  bool has_index = !globs.ignore_index && std::ranges::binary_search(entries, kind.index());
  if (has_index) {
    index = read_hf_index(location / kind.index(), kind);
    has_index = std::ranges::none_of(index.files, [&](const std::string& name) {
      return std::ranges::binary_search(left, name);
    });
  }
  if (has_index) {
    chosen = choose_with_index(location, entries, index.files, kind);
  } else if (!globs.empty()) {
    chosen = choose_named(location, entries, left, kind);
  } else {
    chosen = choose_without_index(location, entries, kind);
  }
  catalog.tensors.reserve(index.tensors.size());
  for (const std::string& name : chosen.names)
    add_file(catalog, location / name, name, read, false);
  catalog.notes.insert(catalog.notes.begin(), chosen.notes.begin(), chosen.notes.end());
  if (globs.empty()) note_other_weights(entries, kind, catalog);
  if (chosen.has_index && !index.metadata.empty()) {
    catalog.notes.push_back(fmt::format("neither read nor copied: {} in the metadata of the index",
                                        quoted_list(index.metadata)));
  }
  sort_tensors(catalog, chosen.has_index ? &index : nullptr, kind);
  std::ranges::sort(catalog.unreadable, {}, &UnreadableArray::name);
  if (chosen.has_index) check_against_index(catalog, index);
  catalog.config_text = read_hf_config(location);
  catalog.side_files = find_side_files(location, entries);
  if (!globs.empty()) return catalog;
  std::vector<std::string> known = catalog.side_files;
  for (const CatalogFile& file : catalog.files) known.push_back(file.name);  // also in folders
  std::ranges::copy_if(entries, std::back_inserter(known), [&](const std::string& entry) {
    return entry == kind.index() || entry.ends_with(kind.ending);  // other notes name weights
  });
  std::ranges::sort(known);
  if (std::string note = note_left_behind(location, entries, known, catalog.notes); !note.empty())
    catalog.notes.push_back(std::move(note));
  return catalog;
}

}  // namespace

std::string read_hf_config(const StorePath& directory) {
  constexpr std::uint64_t kMaxConfigBytes = 16U << 20;
  const StorePath path = directory / "config.json";
  if (!path.exists()) return {};
  std::string text = path.read(kMaxConfigBytes);
  if (text.empty()) throw Error(ErrorCode::bad_input, "the file is empty").in_file(path.text());
  return text;
}

Catalog open_hf_directory(const StorePath& location, std::vector<std::string> entries,
                          const Choice& choice, const WeightFiles& kind, const HeaderReader& read) {
  return choice.despite_loss
             ? open_remains(location, entries, kind, read)
             : open_directory(location, std::move(entries), choice.files, kind, read);
}

Catalog open_hf_file(const StorePath& location, const HeaderReader& read) {
  const StorePath directory = location.parent();
  const std::string name = location.name().substr(location.name().rfind('/') + 1);
  if (name.starts_with("adapter_model.")) refuse_adapter(location, {name});
  Catalog catalog;
  catalog.location = location.text();
  catalog.directory = directory;
  add_file(catalog, location, name, read, false);
  std::ranges::sort(catalog.tensors, {}, &TensorInfo::name);
  catalog.config_text = read_hf_config(directory);
  const std::vector<std::string> entries = directory.list();
  catalog.part = part_of_model(directory, entries, name);
  if (catalog.part.empty()) catalog.side_files = find_side_files(directory, entries);
  if (!catalog.part.empty() && catalog.config_text.empty()) {
    catalog.notes.push_back(fmt::format(
        "{} is one of several files of a model; pass the directory to convert all of them",
        quote(name)));
  }
  return catalog;
}

bool is_one_file(const StorePath& location, const Choice& choice) {
  const auto entry = location.find();
  if (!entry || entry->kind == FileKind::dangling) throw_no_location(location, entry);
  const bool is_file = entry->kind != FileKind::directory;
  if (is_file && !choice.files.empty()) {
    throw Error(ErrorCode::usage, "the source is one file, so globs of files don't apply")
        .in_file(location.text())
        .hint("--include and --exclude select files only if the source is a directory");
  }
  return is_file;
}

Wording hf_wording() {
  return {.kind = "huggingface",
          .array = "tensor",
          .arrays = "tensors",
          .name = "name",
          .has_files = true};
}

std::optional<NameList> open_hf_names(const StorePath& location, const WeightFiles& kind) {
  const StorePath index_path = location / kind.index();
  if (!location.is_directory() || !index_path.is_file()) return std::nullopt;
  const HfIndex index = read_hf_index(index_path, kind);
  for (const std::string& name : index.files) {
    if ((location / name).exists()) return std::nullopt;
  }
  const std::vector<std::string> entries = location.list();
  if (std::ranges::any_of(entries,
                          [&](const std::string& name) { return name.ends_with(kind.ending); }))
    return std::nullopt;  // the index is stale
  NameList out;
  out.location = location.text();
  out.config_text = read_hf_config(location);
  if (out.config_text.empty()) return std::nullopt;
  out.names.reserve(index.tensors.size());
  for (const auto& [name, file] : index.tensors) out.names.push_back(name);
  return out;
}

}  // namespace hfshard::format
