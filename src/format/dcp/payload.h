#pragma once

#include <cstdint>
#include <string_view>

#include "format/dcp/archive.h"
#include "format/dcp/pickle.h"
#include "format/dcp/tensor_pickle.h"

#include "hfshard/dtype.h"

namespace hfshard::format::dcp {

/// Where the elements of one box are: in their file, or in the archive that a packed item holds
/// (packed_item.h).
struct Payload {
  std::uint64_t begin_bytes = 0;  ///< of the record
  std::uint64_t size_bytes = 0;   ///< of the record
  std::uint64_t offset_units = 0;
  Shape strides;         ///< in units
  bool has_crc = false;  ///< of the record
  std::uint32_t crc = 0;
};

/// What a box is, as the metadata has it. The extent is in units (torch_dtype.h).
struct BoxForm {
  DType dtype = DType::bf16;
  Shape extent;
};

/// What a data.pkl says of a box. Throws: corrupt (another dtype or shape), as read_tensor_pickle.
TensorPickle read_box_pickle(const Pickle& pickle, const BoxForm& form);
/// Looks for the elements of a box in its item's archive. Throws: corrupt (not what the metadata
/// says), unsupported, limit, io, each with file and the item's range.
Payload find_payload(const Archive& archive, const BoxForm& form);
/// Of the record "byteorder". Throws: unsupported (anything but little).
void check_byte_order(std::string_view order);

}  // namespace hfshard::format::dcp
