#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/local/source.h"
#include "format/torch/torch_file.h"

namespace hfshard::format::torch {

/// Near the start of torch.save's files before 1.6: the pickled number 0x1950a86a20f9469cfc6c. The
/// opcode of the protocol is before it, and from protocol 4 on that of a frame. Source:
/// pytorch/pytorch torch/serialization.py MAGIC_NUMBER, _legacy_save.
inline constexpr std::string_view kOldMagic{"\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 13};

/// Reads such a file. It has several pickles, then the storages, each after its length. Throws: as
/// read_torch_file.
TorchFile read_old_file(const SourceFile& file, const Choice& choice);

/// Returns the end of the magic number in the first bytes of a file. Empty for other files.
std::optional<std::uint64_t> end_of_old_magic(std::string_view begin);

}  // namespace hfshard::format::torch
