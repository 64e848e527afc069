#include "format/foreign.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

struct ForeignKind {
  std::string_view begin;  // first bytes of a file; empty: any
  std::string_view name;   // pattern for the name of such a file
  std::string_view what;
  std::string_view hint;
};

constexpr std::string_view kFromTorch =
    "save the model as safetensors first, for example with "
    "save_pretrained(safe_serialization=True)";
constexpr std::string_view kOfDcp = "pass the directory that it is in";
constexpr std::string_view kFromGguf =
    "convert the model's own safetensors instead, since most GGUF files hold rounded values: "
    "hfshard convert ORG/NAME OUT";
constexpr std::string_view kFromNemo =
    "export it with NeMo first: nemo.collections.llm.export_ckpt(path, target=\"hf\")";

constexpr std::string_view kFromEasydel =
    "export it with EasyDeL first: model.to_torch().save_pretrained(DIR)";
constexpr std::string_view kFromMegatron =
    "export it with Megatron Bridge first: "
    "AutoBridge.from_hf_pretrained(MODEL).export_ckpt(megatron_path, hf_path)";

// The first match counts. Source: ggml-org/ggml docs/gguf.md; the zip and HDF5 file formats;
// Python's pickle protocols.
constexpr std::array<ForeignKind, 13> kForeignFiles{{
    {"GGUF", "*", "a GGUF file (llama.cpp)", kFromGguf},
    {"\x89HDF\r\n\x1a\n", "*", "an HDF5 file (Keras)", ""},
    {"PK\x03\x04", "*.npz", "a NumPy archive", ""},
    {"", "*.distcp", "one file of a PyTorch DCP checkpoint", kOfDcp},
    {"", "*.metadata", "the metadata of a PyTorch DCP checkpoint", kOfDcp},
    {"PK\x03\x04", "*", "a PyTorch file", kFromTorch},
    {"\x80", "*.msgpack", "a Flax msgpack file", ""},
    {"", "*.msgpack", "a Flax msgpack file", ""},
    {"\x80", "*.p*t*", "a PyTorch file from before 1.6", kFromTorch},
    {"\x93NUMPY", "*", "a NumPy array", ""},
    {"", "*.onnx", "an ONNX model", "convert the model that was exported"},
    {"", "*.nemo", "a NeMo checkpoint", kFromNemo},
    {"", "*.parameters", "an EasyDeL checkpoint", kFromEasydel},
}};

std::string first_bytes(const StorePath& path) {
  const auto file = path.open();
  std::vector<std::byte> out(std::min<std::uint64_t>(file->size_bytes(), 8));
  file->read_at(0, out);
  return std::string(as_text(out));
}

[[noreturn]] void throw_foreign(const StorePath& path, std::string_view what,
                                std::string_view hint) {
  Error error(ErrorCode::unsupported, fmt::format("this is {}, which hfshard can't read", what));
  error.in_file(path.text());
  if (!hint.empty()) error.hint(std::string(hint));
  throw error;
}

void refuse_file(const StorePath& path) {
  const std::string name = path.name().substr(path.name().rfind('/') + 1);
  const std::string begin = first_bytes(path);
  for (const ForeignKind& kind : kForeignFiles) {
    if (begin.starts_with(kind.begin) && glob_match(kind.name, name))
      throw_foreign(path, kind.what, kind.hint);
  }
}

// Before Orbax, a Flax checkpoint was one msgpack file `checkpoint_STEP`. Its first byte means a
// map with up to 15 members. Source: google/flax flax/training/checkpoints.py; msgpack's spec.md.
bool is_flax(const StorePath& path) {
  const std::string name = path.name().substr(path.name().rfind('/') + 1);
  if (name != "checkpoint" && !name.starts_with("checkpoint_")) return false;
  const std::string begin = first_bytes(path);
  return !begin.empty() && (static_cast<unsigned char>(begin[0]) & 0xF0U) == 0x80;
}

void refuse_flax(const StorePath& path) {
  if (is_flax(path)) {
    throw_foreign(
        path, "a Flax checkpoint (msgpack)",
        "load it with flax.training.checkpoints.restore_checkpoint and save it with Orbax");
  }
}

using Names = std::vector<std::string>;

bool has_any(const Names& names, std::string_view glob) {
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return glob_match(glob, name); });
}

// Returns whether a directory below `path` has such a file. `below` and `glob` match names.
bool has_below(const StorePath& path, const Names& names, std::string_view below,
               std::string_view glob) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const StorePath directory = path / name;
    return glob_match(below, name) && directory.is_directory() && !directory.is_closed() &&
           has_any(directory.list(), glob);
  });
}

// Source: deepspeedai/DeepSpeed deepspeed/runtime/engine.py (_get_zero_ckpt_name), and
// deepspeed/utils/zero_to_fp32.py. DeepSpeed copies the latter next to the steps' directories.
constexpr std::string_view kOfZero = "*zero_pp_rank_*_states.pt";

void refuse_deepspeed(const StorePath& path, const Names& names) {
  const bool is_step = has_any(names, kOfZero);
  if (!is_step && !has_below(path, names, "global_step*", kOfZero)) return;
  const std::string root = is_step ? path.parent().text() : path.text();
  throw_foreign(path, "a DeepSpeed checkpoint (ZeRO)",
                fmt::format("join its files first: python {0}/zero_to_fp32.py {0} MODEL "
                            "--safe_serialization",
                            root.empty() ? "." : root));
}

// Source: NVIDIA/Megatron-LM megatron/training/checkpointing.py (get_checkpoint_name,
// get_checkpoint_tracker_filename); erfanzar/EasyDeL easydel/infra/mixins/bridge.py; TensorFlow's
// saved_model and checkpoint formats.
void refuse_trainers(const StorePath& path, const Names& names) {
  refuse_deepspeed(path, names);
  const bool is_megatron =
      has_below(path, names, "mp_rank_*", "model_*rng.pt") ||
      (has_any(names, "latest_checkpointed_iteration.txt") && has_any(names, "iter_[0-9]*"));
  if (is_megatron) throw_foreign(path, "a Megatron-LM checkpoint", kFromMegatron);
  if (has_any(names, "easydel-model.parameters") || has_any(names, "tensorstore_index.json"))
    throw_foreign(path, "an EasyDeL checkpoint", kFromEasydel);
  if (has_any(names, "saved_model.pb") || has_any(names, "*.ckpt*.data-[0-9]*-of-[0-9]*"))
    throw_foreign(path, "a TensorFlow checkpoint", "");
}

void refuse_directory(const StorePath& path) {
  const Names names = path.list();
  for (const std::string& name : names) {
    if (name.starts_with("checkpoint") && (path / name).is_file()) refuse_flax(path / name);
  }
  refuse_trainers(path, names);
}

}  // namespace

bool is_megatron_tree(const StorePath& path) {
  return path.is_directory() && (path / "common.pt").is_file() &&
         (path / "metadata.json").is_file();
}

std::string_view megatron_hint() { return kFromMegatron; }

void refuse_foreign_ranks(const StorePath& path) {
  if (path.is_directory()) refuse_deepspeed(path, path.list());
}

void refuse_foreign(const StorePath& path) {
  const auto entry = path.find();
  if (!entry) return;
  if (entry->kind == FileKind::directory) refuse_directory(path);
  if (entry->kind != FileKind::regular) return;
  refuse_file(path);
  refuse_flax(path);
}

}  // namespace hfshard
