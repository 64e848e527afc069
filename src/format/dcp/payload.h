#pragma once

#include <cstdint>
#include <string_view>

#include "format/archive.h"
#include "format/pickle.h"
#include "format/tensor_pickle.h"

#include "hfshard/dtype.h"

namespace hfshard::format::dcp {

/// The place of a box's elements in their file, or in the archive of a packed item (packed_item.h).
struct Payload {
  std::uint64_t begin_bytes = 0;  ///< of the record
  std::uint64_t size_bytes = 0;   ///< of the record
  std::uint64_t offset_units = 0;
  Shape strides;         ///< in units
  bool has_crc = false;  ///< of the record
  std::uint32_t crc = 0;
};

/// The metadata of a box. The extent is in units (torch_dtype.h).
struct BoxForm {
  DType dtype = DType::bf16;
  Shape extent;
};

/// Reads the data.pkl of a box. Throws: corrupt (another dtype or shape), as read_tensor_pickle.
TensorPickle read_box_pickle(const Pickle& pickle, const BoxForm& form);
/// Finds the elements of a box in its item's archive. Throws: corrupt (the metadata differ),
/// unsupported, limit, io, each with file and the item's range.
Payload find_payload(const Archive& archive, const BoxForm& form);
/// Checks the record "byteorder". Throws: unsupported (not little).
void check_byte_order(std::string_view order);

}  // namespace hfshard::format::dcp
