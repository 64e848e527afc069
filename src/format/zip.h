#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/coding.h"

/// Numbers of the zip format. Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
namespace hfshard::format::zip {

inline constexpr std::string_view kHeader{"PK\3\4", 4};
inline constexpr std::string_view kDescriptor{"PK\7\10", 4};
inline constexpr std::string_view kEntry{"PK\1\2", 4};
inline constexpr std::string_view kEnd{"PK\5\6", 4};
inline constexpr std::string_view kWideEnd{"PK\6\6", 4};
inline constexpr std::string_view kLocator{"PK\6\7", 4};

inline constexpr std::uint64_t kHeaderBytes = 30;
inline constexpr std::uint64_t kDescriptorBytes = 16;
inline constexpr std::uint64_t kWideDescriptorBytes = 24;
inline constexpr std::uint64_t kEntryBytes = 46;
inline constexpr std::uint64_t kEndBytes = 22;
inline constexpr std::uint64_t kWideEndBytes = 56;
inline constexpr std::uint64_t kLocatorBytes = 20;

/// Reads a number in a header. Requires that `bytes` contains it.
template <typename T>
T number_at(std::string_view bytes, std::size_t offset) {
  return load_le<T>(as_bytes(bytes).data() + offset);
}

inline constexpr std::uint16_t kEncrypted = 1;
inline constexpr std::uint16_t kSizesFollow = 8;  ///< in a data descriptor
inline constexpr std::uint16_t kUtf8 = 0x800;

inline constexpr std::uint16_t kWideField = 1;
/// "FB": torch's padding. Source: pytorch/pytorch caffe2/serialize/inline_container.cc getPadding.
inline constexpr std::uint16_t kPadField = 0x4246;

}  // namespace hfshard::format::zip
