#include "format/safetensors/open.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "format/safetensors/hf_index.h"
#include "format/safetensors/hf_repo.h"
#include "format/safetensors/safetensors.h"

namespace hfshard::format::safetensors {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 16U << 20;

// `org/name`.
bool looks_like_hub_id(std::string_view location) {
  const std::vector<std::string> parts = split(location, '/');
  if (parts.size() != 2) return false;
  return std::ranges::all_of(parts, [](const std::string& part) {
    return !part.empty() && part[0] != '.' && part[0] != '~' &&
           part.find_first_of(" \\") == std::string::npos;
  });
}

[[noreturn]] void throw_no_location(const StorePath& location) {
  Error error(ErrorCode::not_found, "no such file or directory");
  error.in_file(location.text());
  if (looks_like_hub_id(location.name()) && !location.parent().exists()) {
    error.hint(fmt::format("a model of the hub is named hf://{}", location.name()));
  } else if (location.exists()) {
    error.hint("the name is a link that leads nowhere");
  } else {
    error.hint(tilde_hint(location.name()));
  }
  throw error;
}

// Reads the header of one more file.
void add_file(Catalog& catalog, StorePath path, std::string name, bool despite_loss) {
  SafetensorsHeader header = parse_safetensors(path, despite_loss);
  const auto id = static_cast<std::uint32_t>(catalog.files.size());
  catalog.files.push_back({std::move(path), std::move(name), header.identity.size_bytes,
                           std::move(header.identity.version), std::move(header.sha256)});
  for (TensorInfo& tensor : header.tensors) {
    tensor.file = id;
    catalog.tensors.push_back(std::move(tensor));
  }
}

void sort_tensors(Catalog& catalog) {
  std::ranges::sort(catalog.tensors, [](const TensorInfo& a, const TensorInfo& b) {
    return a.name != b.name ? a.name < b.name : a.file < b.file;
  });
  const auto twice = std::ranges::adjacent_find(
      catalog.tensors, {}, [](const TensorInfo& t) -> const std::string& { return t.name; });
  if (twice == catalog.tensors.end()) return;
  throw Error(ErrorCode::bad_input, fmt::format("the tensor is in two files, also in {}",
                                                quote(catalog.files[std::next(twice)->file].name)))
      .in_file(catalog.files[twice->file].path.text())
      .in_tensor(twice->name);
}

[[noreturn]] void throw_absent(const Catalog& catalog, const std::string& name,
                               std::uint32_t file) {
  Error error(ErrorCode::bad_input, "the index places the tensor in a file that does not hold it");
  error.in_file(catalog.files[file].path.text()).in_tensor(name);
  if (const auto found = catalog.find(name)) {
    error.hint(fmt::format("it is in {}; the index and the files may be of different revisions",
                           quote(catalog.files[catalog.tensors[*found].file].name)));
  } else {
    error.hint("the index and the files may be of different revisions");
  }
  throw error;
}

// Both lists are sorted by name and free of duplicates.
void check_against_index(const Catalog& catalog, const HfIndex& index) {
  auto listed = index.tensors.begin();
  for (const TensorInfo& tensor : catalog.tensors) {
    if (listed != index.tensors.end() && listed->first < tensor.name) {
      throw_absent(catalog, listed->first, listed->second);
    }
    if (listed == index.tensors.end() || listed->first != tensor.name) {
      throw Error(ErrorCode::bad_input, "the file holds a tensor that the index does not list")
          .in_file(catalog.files[tensor.file].path.text())
          .in_tensor(tensor.name)
          .at(tensor.range(), catalog.files[tensor.file].size_bytes)
          .hint("the index and the files may be of different revisions");
    }
    if (listed->second != tensor.file) throw_absent(catalog, tensor.name, listed->second);
    ++listed;
  }
  if (listed != index.tensors.end()) throw_absent(catalog, listed->first, listed->second);
}

std::string read_config(const StorePath& directory) {
  const StorePath path = directory / "config.json";
  const auto entry = path.find();
  if (!entry || entry->kind == FileKind::dangling) return {};
  std::string text = path.read(kMaxConfigBytes);
  if (text.empty()) throw Error(ErrorCode::bad_input, "the file is empty").in_file(path.text());
  return text;
}

// The files of a directory as far as they are there. Arrays of those that are not have no shape.
Catalog open_remains(const StorePath& location, const std::vector<std::string>& entries) {
  Catalog catalog;
  catalog.location = location.text();
  catalog.directory = location;
  std::vector<std::string> names;
  if (std::ranges::binary_search(entries, kIndexName))
    names = read_hf_index(location / kIndexName).files;
  if (names.empty()) {
    names = entries;
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  }
  for (const std::string& name : names) {
    try {
      add_file(catalog, location / name, name, true);
    } catch (const Error& error) {  // the others are read all the same
      if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
      catalog.lost.push_back(error);
    }
  }
  sort_tensors(catalog);
  return catalog;
}

Catalog open_directory(const StorePath& location, const FileGlobs& globs) {
  std::vector<std::string> entries = location.list();
  const std::vector<std::string> left = leave_files(location, globs, entries);
  Catalog catalog;
  catalog.location = location.text();
  catalog.directory = location;
  HfIndex index;
  HfFiles chosen;
  bool has_index = std::ranges::binary_search(entries, kIndexName);
  if (has_index) {
    index = read_hf_index(location / kIndexName);
    has_index = std::ranges::none_of(index.files, [&](const std::string& name) {
      return std::ranges::binary_search(left, name);
    });
  }
  if (has_index) {
    chosen = choose_with_index(location, entries, index.files);
  } else if (!globs.empty()) {
    chosen = choose_named(location, entries);
  } else {
    chosen = choose_without_index(location, entries);
  }
  catalog.tensors.reserve(index.tensors.size());
  for (const std::string& name : chosen.names) add_file(catalog, location / name, name, false);
  sort_tensors(catalog);
  if (chosen.has_index) check_against_index(catalog, index);
  catalog.config_text = read_config(location);
  catalog.side_files = find_side_files(location, entries);
  catalog.notes = std::move(chosen.notes);
  return catalog;
}

Catalog open_file(const StorePath& location) {
  const StorePath directory = location.parent();
  const std::string name = location.name().substr(location.name().rfind('/') + 1);
  if (!name.ends_with(".safetensors")) {
    throw Error(ErrorCode::unsupported, "the file is not named *.safetensors")
        .in_file(location.text())
        .hint(fmt::format("name the directory {}, or a safetensors file", directory.name()));
  }
  if (name == "adapter_model.safetensors") refuse_adapter(location, {name});
  Catalog catalog;
  catalog.location = location.text();
  catalog.directory = directory;
  add_file(catalog, location, name, false);
  sort_tensors(catalog);
  catalog.config_text = read_config(directory);
  return catalog;
}

}  // namespace

std::optional<NameList> open_hf_names(const StorePath& location) {
  const StorePath index_path = location / kIndexName;
  if (!location.is_directory() || !index_path.is_file()) return std::nullopt;
  const HfIndex index = read_hf_index(index_path);
  for (const std::string& name : index.files) {
    if ((location / name).exists()) return std::nullopt;
  }
  NameList out;
  out.location = location.text();
  out.config_text = read_config(location);
  if (out.config_text.empty()) return std::nullopt;
  out.names.reserve(index.tensors.size());
  for (const auto& [name, file] : index.tensors) out.names.push_back(name);
  return out;
}

Catalog open_hf_catalog(const StorePath& location, const Choice& choice) {
  const auto entry = location.find();
  if (!entry || entry->kind == FileKind::dangling) throw_no_location(location);
  const bool is_file = entry->kind != FileKind::directory;
  if (is_file && !choice.files.empty()) {
    throw Error(ErrorCode::usage, "the source is one file, so that there are none to choose from")
        .in_file(location.text())
        .hint("--include and --exclude take names of files where the source is a directory");
  }
  Catalog catalog = is_file               ? open_file(location)
                    : choice.despite_loss ? open_remains(location, location.list())
                                          : open_directory(location, choice.files);
  catalog.wording = {.kind = "huggingface",
                     .array = "tensor",
                     .arrays = "tensors",
                     .name = "name",
                     .has_files = true};
  return catalog;
}

}  // namespace hfshard::format::safetensors
