#include "format/dcp/payload.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "format/dcp/archive_write.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/zip.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// The tensor and the CRC determine every byte of hfshard's archives. Archives by other programs
// with the same flags have other records.
bool claims_to_be_ours(const Archive& archive) {
  return archive.records().size() == 4 &&
         std::ranges::all_of(archive.records(), [](const Archive::Record& record) {
           return record.flags == zip::kUtf8;
         });
}

void check_ours(const Archive& archive, const TensorPickle& tensor, const Archive::Record& data,
                std::uint64_t payload_begin) {
  if (!claims_to_be_ours(archive)) return;
  const std::string pickle = tensor_pickle(tensor.dtype, tensor.shape);
  const std::uint64_t head_bytes = payload_begin - archive.item().begin;
  const std::uint64_t size = archive.item().end - archive.item().begin;
  const ArchiveForm form = archive_form(pickle.size(), data.size_bytes);
  const bool as_long =
      head_bytes >= form.head_bytes && size == head_bytes + data.size_bytes + form.tail_bytes;
  if (as_long &&
      archive.bytes(0, head_bytes) == archive_head(pickle, data.size_bytes, data.crc, head_bytes) &&
      archive.bytes(size - form.tail_bytes, form.tail_bytes) ==
          archive_tail(pickle, data.size_bytes, data.crc, head_bytes))
    return;
  archive.fail("the archive is damaged: its headers and its directory differ");
}

}  // namespace

TensorPickle read_box_pickle(const Pickle& pickle, const BoxForm& form) {
  TensorPickle out = read_tensor_pickle(pickle);
  if (out.dtype == form.dtype && out.shape == form.extent) return out;
  throw Error(ErrorCode::corrupt,
              fmt::format("the item is {} of {}; the metadata says {} of {}", to_string(out.dtype),
                          to_string(out.shape), to_string(form.dtype), to_string(form.extent)));
}

void check_byte_order(std::string_view order) {
  if (order != "little") throw Error(ErrorCode::unsupported, "elements that aren't little-endian");
}

Payload find_payload(const Archive& archive, const BoxForm& form) {
  const Archive::Record* data = archive.find("data.pkl");
  if (data == nullptr) archive.fail("the archive has no data.pkl");
  TensorPickle found;
  try {
    found = read_box_pickle(Pickle(archive.read(*data), archive.file().name(), Persistent::allowed,
                                   archive.payload_bytes(*data), archive.file().size_bytes()),
                            form);
    if (const Archive::Record* order = archive.find("byteorder"))
      check_byte_order(archive.read(*order));
  } catch (Error& error) {  // the error is about this item
    throw error.in_file(archive.file().name()).at(archive.item(), archive.file().size_bytes());
  }
  const Archive::Record* record = archive.find(found.record);
  if (record == nullptr)
    archive.fail(fmt::format("the archive has no record {}", quote(found.record)));
  if (record->size_bytes != found.storage_bytes) {
    archive.fail(fmt::format("the elements need {} bytes; their record has {}", found.storage_bytes,
                             record->size_bytes));
  }
  Payload out{archive.payload_bytes(*record),
              record->size_bytes,
              found.offset,
              found.strides,
              archive.has_crcs(),
              record->crc};
  check_ours(archive, found, *record, out.begin_bytes);
  return out;
}

}  // namespace hfshard::format::dcp
