#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hfshard::format::dcp {

/// The bytes around a tensor's elements in an archive that hfshard writes. In front are the pickle
/// that describes the tensor and three small records; the directory follows. FORMAT.md, What is
/// written.
struct ArchiveForm {
  std::uint64_t head_bytes = 0;
  std::uint64_t tail_bytes = 0;
};
/// Returns the form for a pickle and elements of these sizes. In the archive, the elements begin at
/// a multiple of kPayloadAlignment.
ArchiveForm archive_form(std::uint64_t pickle_bytes, std::uint64_t payload_bytes);
inline constexpr std::uint64_t kPayloadAlignment = 64;

/// Returns the bytes in front. They are exactly `head_bytes`, at least archive_form's.
std::string archive_head(std::string_view pickle, std::uint64_t payload_bytes, std::uint32_t crc,
                         std::uint64_t head_bytes);
std::string archive_tail(std::string_view pickle, std::uint64_t payload_bytes, std::uint32_t crc,
                         std::uint64_t head_bytes);

}  // namespace hfshard::format::dcp
