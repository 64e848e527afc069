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
  std::string_view begin;  // of a file; empty: any
  std::string_view name;   // a pattern, of a file that begins so
  std::string_view what;
  std::string_view hint;
};

constexpr std::string_view kFromTorch =
    "save the model as safetensors first, for example with "
    "save_pretrained(safe_serialization=True)";
constexpr std::string_view kOfDcp = "name the directory that it is in";
constexpr std::string_view kFromGguf =
    "convert from the model's own safetensors: most GGUF files hold rounded values";

// The first that fits. Source: ggml-org/ggml docs/gguf.md; the zip and HDF5 file formats; Python's
// pickle protocols.
constexpr std::array<ForeignKind, 10> kForeignFiles{{
    {"GGUF", "*", "a GGUF file (llama.cpp)", kFromGguf},
    {"\x89HDF\r\n\x1a\n", "*", "an HDF5 file (Keras)", ""},
    {"PK\x03\x04", "*.npz", "a NumPy archive", ""},
    {"", "*.distcp", "one file of a PyTorch checkpoint (DCP)", kOfDcp},
    {"", "*.metadata", "the metadata of a PyTorch checkpoint (DCP)", kOfDcp},
    {"PK\x03\x04", "*", "a PyTorch file", kFromTorch},
    {"\x80", "*.msgpack", "a Flax msgpack file", ""},
    {"", "*.msgpack", "a Flax msgpack file", ""},
    {"\x80", "*.p*t*", "a PyTorch file of before 1.6", kFromTorch},
    {"\x93NUMPY", "*", "a NumPy array", ""},
}};

std::string first_bytes(const StorePath& path) {
  const auto file = path.open();
  std::vector<std::byte> out(std::min<std::uint64_t>(file->size_bytes(), 8));
  file->read_at(0, out);
  return std::string(as_text(out));
}

[[noreturn]] void throw_foreign(const StorePath& path, std::string_view what,
                                std::string_view hint) {
  Error error(ErrorCode::unsupported, fmt::format("{}, which is not read", what));
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

// A Flax checkpoint of before Orbax is one msgpack file `checkpoint_STEP`, whose first byte says a
// map of up to 15 members. Source: google/flax flax/training/checkpoints.py; msgpack's spec.md.
bool is_flax(const StorePath& path) {
  const std::string name = path.name().substr(path.name().rfind('/') + 1);
  if (name != "checkpoint" && !name.starts_with("checkpoint_")) return false;
  const std::string begin = first_bytes(path);
  return !begin.empty() && (static_cast<unsigned char>(begin[0]) & 0xF0U) == 0x80;
}

void refuse_flax(const StorePath& path) {
  if (is_flax(path)) {
    throw_foreign(path, "a Flax checkpoint (msgpack)",
                  "load it with flax.training.checkpoints.restore_checkpoint, and save it with "
                  "Orbax");
  }
}

void refuse_directory(const StorePath& path) {
  for (const std::string& name : path.list()) {
    if (name.starts_with("checkpoint") && (path / name).is_file()) refuse_flax(path / name);
  }
}

}  // namespace

void refuse_foreign(const StorePath& path) {
  const auto entry = path.find();
  if (!entry) return;
  if (entry->kind == FileKind::directory) refuse_directory(path);
  if (entry->kind != FileKind::regular) return;
  refuse_file(path);
  refuse_flax(path);
}

}  // namespace hfshard
