#include "format/torch/open.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "format/foreign.h"
#include "format/hf_open.h"
#include "format/hf_repo.h"
#include "format/plain_checkpoint.h"
#include "format/torch/assembled.h"
#include "format/torch/ranks.h"
#include "format/torch/torch_file.h"
#include "format/torch_dtype.h"

#include "hfshard/error.h"

namespace hfshard::format::torch {
namespace {

constexpr std::array<std::string_view, 4> kEndings{".bin", ".pt", ".pth", ".ckpt"};
// Other files that trainers save with the same endings. Source: huggingface/transformers
// src/transformers/trainer.py; huggingface/accelerate src/accelerate/utils/constants.py.
constexpr std::array<std::string_view, 10> kBeside{
    "training_args.*", "optim*", "scheduler*",   "scaler*",      "sampler*",
    "random_states_*", "rng_*",  "extra_state*", "train_state*", "dataloader*"};

bool is_beside(std::string_view name) {
  return std::ranges::any_of(kBeside,
                             [&](std::string_view glob) { return glob_match(glob, name); });
}

// Opens files in order, and collects notes about them.
class TorchFiles {
 public:
  WeightHeader read(const StorePath& path, const Choice& choice) {
    TorchFile file = read_torch_file(path, choice);
    below_root_ = !choice.root.empty();
    WeightHeader out{std::move(file.identity), std::move(file.sha256), {}};
    out.unreadable = std::move(file.unreadable);
    for (StoredView& view : file.tensors) {
      TensorInfo& info = out.tensors.emplace_back();
      info.name = view.name;
      info.dtype = view.dtype;
      info.shape = from_units(view.dtype, view.units);
      info.begin_bytes = view.begin_bytes;
      info.size_bytes = view.size_bytes();
      if (view.shard && !(view.shard->shape == view.units)) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("the file has one rank's part, {}, of the tensor of {}",
                                to_string(view.units), to_string(view.shard->shape)))
            .in_file(path.text())
            .in_tensor(view.name)
            .hint("pass the directory with the files of all ranks, model_world_size_N_rank_I.pt");
      }
      if (view.crc && view.is_whole && view.is_packed())
        crcs_.emplace(std::pair(path.text(), view.name), *view.crc);
      if (!view.is_packed()) strided_.push_back({path.text(), std::move(view)});
    }
    note(path, file);
    return out;
  }
  // Puts the tensors that aren't contiguous into an assembled file of the catalog.
  void assemble(Catalog& catalog) {
    if (strided_.empty()) return;
    Assembly assembly;
    assembly.text = location_of_strided(catalog);
    const auto number = static_cast<std::uint32_t>(catalog.files.size());
    for (Strided& each : strided_) {
      const auto file = std::ranges::find(
          catalog.files, each.file, [](const CatalogFile& known) { return known.path.text(); });
      const auto found = catalog.find(each.view.name);
      HFSHARD_CHECK(file != catalog.files.end() && found.has_value());
      if (catalog.tensors[*found].file != file - catalog.files.begin()) continue;  // a copy
      AssembledBox box;
      box.file = number_in(assembly, *file);
      box.begin_bytes = each.view.begin_bytes;
      box.begin = each.view.units;
      for (std::size_t d = 0; d < box.begin.rank(); ++d) box.begin[d] = 0;
      box.extent = each.view.units;
      box.strides = each.view.strides;
      TensorInfo& info = catalog.tensors[*found];
      info.file = number;
      info.begin_bytes = assembly.add(
          {each.view.name, each.view.units, unit_bytes(each.view.dtype), 0, {std::move(box)}});
    }
    if (assembly.arrays.empty()) return;
    catalog.files.push_back(assembled_file(std::move(assembly)));
  }
  std::vector<std::string> take_notes() { return std::move(notes_); }
  // Returns the CRCs of tensors that are all of a storage.
  ArrayCrcs crcs_of(const Catalog& catalog) const {
    ArrayCrcs out;
    out.reserve(catalog.tensors.size());
    for (const TensorInfo& tensor : catalog.tensors) {
      const auto found = crcs_.find({catalog.files[tensor.file].path.text(), tensor.name});
      out.push_back(found == crcs_.end() ? std::nullopt : std::optional(found->second));
    }
    return out;
  }

 private:
  void note(const StorePath& path, const TorchFile& file) {
    const std::string name = path.name().substr(path.name().rfind('/') + 1);
    if (!file.below.empty() && !below_root_)
      notes_.push_back(
          fmt::format("the tensors of {} are below the key {}", quote(name), quote(file.below)));
    if (file.others.empty()) return;
    notes_.push_back(
        file.below.empty()
            ? fmt::format(
                  "left out of {}, since they aren't tensors, or dicts of them, with text as "
                  "keys: {}",
                  quote(name), quoted_list(file.others))
            : fmt::format("left out of {}, since they aren't below {}, or aren't tensors: {}{}",
                          quote(name), quote(file.below), quoted_list(file.others),
                          below_root_ ? "" : "; --root KEY takes what is below another key"));
  }

  // Files are opened in order, so a new one is the last.
  static std::uint32_t number_in(Assembly& assembly, const CatalogFile& file) {
    if (assembly.files.empty() || assembly.files.back().name != file.name)
      assembly.files.push_back(file);
    return static_cast<std::uint32_t>(assembly.files.size() - 1);
  }
  static std::string location_of_strided(const Catalog& catalog) {
    return (catalog.files.size() == 1 ? catalog.files.front().name : catalog.location) +
           " (strided tensors)";
  }

  struct Strided {
    std::string file;
    StoredView view;
  };
  std::map<std::pair<std::string, std::string>, std::uint32_t> crcs_;  // by file and name
  std::vector<Strided> strided_;
  bool below_root_ = false;
  std::vector<std::string> notes_;
};

bool has_model_files(const std::vector<std::string>& entries) {
  return std::ranges::any_of(entries, [](const std::string& name) {
    return glob_match(kTorchFiles.beginning(kTorchFiles.stem), name) || name == kTorchFiles.index();
  });
}

// Returns the files of one state dict, if the directory has no other kind of checkpoint.
std::vector<std::string> lone_files(const std::vector<std::string>& entries) {
  std::vector<std::string> out;
  for (const std::string& name : entries) {
    if (name == ".metadata" || name.ends_with(".distcp")) return {};  // files next to a DCP
    const bool is_state = name.ends_with(".pt") || name.ends_with(".pth");
    if (is_state && !is_beside(name)) out.push_back(name);
  }
  return out;
}

// Adds a note on files of a trainer, and of other programs, that no note names yet. It replaces the
// one about the files of the others.
void note_beside(const StorePath& location, const std::vector<std::string>& entries,
                 Catalog& catalog) {
  std::erase_if(catalog.notes,
                [](const std::string& note) { return note.starts_with(kLeftBehind); });
  std::vector<std::string> known = catalog.side_files;
  for (const CatalogFile& file : catalog.files) known.push_back(file.name);
  known.push_back(kTorchFiles.index());
  std::ranges::sort(known);
  if (std::string note = note_left_behind(location, entries, known, catalog.notes); !note.empty())
    catalog.notes.push_back(std::move(note));
}

Catalog open_directory(const StorePath& location, std::vector<std::string> entries,
                       const Choice& choice, const HeaderReader& read) {
  const bool by_ranks = choice.files.empty() && !has_model_files(entries);
  if (const auto ranks = by_ranks ? find_rank_files(location, entries) : std::nullopt)
    return open_rank_files(location, entries, *ranks, choice);
  WeightFiles kind = kTorchFiles;
  if (!has_model_files(entries)) {
    const std::vector<std::string> files = lone_files(entries);
    if (!files.empty() && files.front().ends_with(".pth")) kind.ending = ".pth";
    if (!files.empty() && files.front().ends_with(".pt")) kind.ending = ".pt";
  }
  return open_hf_directory(location, std::move(entries), choice, kind, read);
}

// Refuses one of the files in which Meta saves the parts of each tensor. Their names are the same.
void refuse_one_rank(const StorePath& location) {
  if (!is_meta_file(entry_name(location.name()))) return;
  const auto count = std::ranges::count_if(location.parent().list(), is_meta_file);
  if (count < 2) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("the file is one of {} that have the parts of each tensor", count))
      .in_file(location.text())
      .hint("pass the directory, with --config DIR of the model");
}

}  // namespace

bool has_torch_model(const StorePath& location) {
  const auto entry = location.find();
  if (!entry) return false;
  const auto ends = [&](std::string_view ending) { return location.name().ends_with(ending); };
  if (entry->kind == FileKind::regular)
    return !ends(".safetensors") && !ends(".distcp") &&  // DCP's files are archives too
           begins_as_torch_file(location, !std::ranges::any_of(kEndings, ends));
  if (entry->kind != FileKind::directory) return false;
  const std::vector<std::string> entries = location.list();
  return has_model_files(entries) || !lone_files(entries).empty() ||
         std::ranges::any_of(entries, is_rank_file);
}

std::unique_ptr<Checkpoint> open_torch(const StorePath& location, const Choice& choice) {
  TorchFiles files;
  const auto read = [&](const StorePath& path, bool /*despite_loss*/) {
    return files.read(path, choice);
  };
  Catalog catalog;
  if (is_one_file(location, choice)) {
    refuse_one_rank(location);
    catalog = open_hf_file(location, read);
  } else {
    const std::vector<std::string> all = location.list();
    // Next to the files of DeepSpeed's ranks, the whole model can lie, as zero_to_fp32.py joins it.
    if (!has_model_files(all)) refuse_foreign_ranks(location);
    std::vector<std::string> entries = all;
    std::erase_if(entries, [](const std::string& name) { return is_beside(name); });
    catalog = open_directory(location, std::move(entries), choice, read);
    if (choice.files.empty()) note_beside(location, all, catalog);
  }
  files.assemble(catalog);
  for (std::string& note : files.take_notes()) catalog.notes.push_back(std::move(note));
  catalog.wording = hf_wording();
  ArrayCrcs crcs = files.crcs_of(catalog);
  return plain_checkpoint(std::move(catalog), std::move(crcs));
}

}  // namespace hfshard::format::torch
