#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/local/source.h"
#include "format/torch/torch_file.h"

namespace hfshard::format::torch {

/// The start of torch.save's files before 1.6: the pickled number 0x1950a86a20f9469cfc6c. Source:
/// pytorch/pytorch torch/serialization.py MAGIC_NUMBER, _legacy_save.
inline constexpr std::string_view kOldMagic{"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 15};

/// Reads such a file. It has several pickles, then the storages, each after its length. Throws: as
/// read_torch_file.
TorchFile read_old_file(const SourceFile& file, const std::vector<std::string>& without);

}  // namespace hfshard::format::torch
