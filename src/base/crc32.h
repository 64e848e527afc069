#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hfshard {

/// CRC-32 of zip and gzip (reflected 0xEDB88320, initial and final xor all ones); "123456789" ->
/// 0xCBF43926. Multiplies without carries where the machine can (same value everywhere). Source:
/// ISO/IEC 3309; PKWARE APPNOTE.TXT 4.4.7.
std::uint32_t crc32(std::span<const std::byte> bytes) noexcept;
/// Continues a CRC over further bytes: crc32_extend(crc32(a), b) == crc32(a + b).
std::uint32_t crc32_extend(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;
/// Computes the same value with zlib, for machines without the instruction. Declared here for
/// tests, which compare both.
std::uint32_t crc32_extend_portable(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;
/// Returns the CRC of two texts in a row, from the CRC of each and the length of the second.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second,
                           std::uint64_t second_bytes) noexcept;

}  // namespace hfshard
