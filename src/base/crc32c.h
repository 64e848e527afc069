#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hfshard {

/// CRC-32C (Castagnoli, reflected 0x82F63B78, initial and final xor all ones, unmasked);
/// "123456789" -> 0xE3069283. Uses SSE4.2 where the machine has it (same value everywhere). Source:
/// google/tensorstore tensorstore/kvstore/ocdbt/format/codec_util.cc and
/// driver/zarr3/codec/crc32c.cc.
std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;
/// Continues a CRC over further bytes: crc32c_extend(crc32c(a), b) == crc32c(a + b).
std::uint32_t crc32c_extend(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;
/// The table version that machines without SSE4.2 use; same value. Here so that tests compare both
/// on one that has it.
std::uint32_t crc32c_extend_portable(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

}  // namespace hfshard
