#include "support/torch_checkpoint.h"

#include <initializer_list>

#include "base/coding.h"
#include "base/crc32.h"
#include "format/dcp/metadata.h"
#include "format/dcp/pickle_writer.h"
#include "format/dcp/tensor_pickle_write.h"
#include "format/tensor_pickle.h"
#include "format/torch_dtype.h"
#include "format/zip.h"
#include "support/checkpoint_builder.h"
#include "support/temp_dir.h"
#include "support/zstd_frames.h"

namespace hfshard {
namespace {

using format::Op;
using format::dcp::PickleWriter;
namespace zip = format::zip;

constexpr std::string_view kClasses = "torch.distributed.checkpoint.metadata";
constexpr std::size_t kAlignment = 64;
constexpr std::string_view kId = "0123456789012345678901234567890123456789";

template <typename T>
void put_number(std::string& out, T value) {
  std::string bytes(sizeof(T), '\0');
  store_le<T>(std::as_writable_bytes(std::span(bytes)).data(), value);
  out += bytes;
}

struct Record {
  std::string name;
  std::string_view content;
  std::size_t header = 0;
};

// With the field "FB", the elements begin at a multiple of 64.
std::string padding(std::size_t begin) {
  const std::size_t zeros = (kAlignment - (begin + 4) % kAlignment) % kAlignment;
  std::string out;
  put_number(out, zip::kPadField);
  put_number(out, static_cast<std::uint16_t>(zeros));
  return out + std::string(zeros, '\0');
}

void put_record(Record& record, bool wide, std::string& out) {
  record.header = out.size();
  const std::string name = "archive/" + record.name;
  out += zip::kHeader;
  for (const std::uint16_t each : std::initializer_list<std::uint16_t>{0, 0x808, 0, 0, 0})
    put_number(out, each);
  for (int i = 0; i < 3; ++i) put_number(out, std::uint32_t{0});  // not known yet
  put_number(out, static_cast<std::uint16_t>(name.size()));
  const std::string extra = padding(out.size() + 2 + name.size());
  put_number(out, static_cast<std::uint16_t>(extra.size()));
  out += name + extra;
  out += record.content;
  out += zip::kDescriptor;
  put_number(out, crc32(as_bytes(record.content)));
  for (int i = 0; i < 2; ++i) {
    if (wide) put_number(out, std::uint64_t{record.content.size()});
    if (!wide) put_number(out, static_cast<std::uint32_t>(record.content.size()));
  }
}

void put_entry(const Record& record, std::string& out) {
  const std::string name = "archive/" + record.name;
  out += zip::kEntry;
  for (const std::uint16_t each : std::initializer_list<std::uint16_t>{0, 0, 0x808, 0, 0, 0})
    put_number(out, each);
  put_number(out, crc32(as_bytes(record.content)));
  for (int i = 0; i < 2; ++i) put_number(out, static_cast<std::uint32_t>(record.content.size()));
  put_number(out, static_cast<std::uint16_t>(name.size()));
  for (int i = 0; i < 6; ++i) put_number(out, std::uint16_t{0});
  put_number(out, static_cast<std::uint32_t>(record.header));
  out += name;
}

void put_directory(const std::vector<Record>& records, std::string& out) {
  const std::size_t directory = out.size();
  for (const Record& record : records) put_entry(record, out);
  const std::size_t end = out.size();
  out += zip::kWideEnd;
  put_number(out, zip::kWideEndBytes - 12);
  put_number(out, std::uint32_t{0});
  put_number(out, std::uint32_t{0});
  put_number(out, std::uint32_t{0});
  for (int i = 0; i < 2; ++i) put_number(out, std::uint64_t{records.size()});
  put_number(out, std::uint64_t{end - directory});
  put_number(out, std::uint64_t{directory});
  out += zip::kLocator;
  put_number(out, std::uint32_t{0});
  put_number(out, std::uint64_t{end});
  put_number(out, std::uint32_t{1});
  out += zip::kEnd;
  put_number(out, std::uint32_t{0});
  for (int i = 0; i < 2; ++i) put_number(out, static_cast<std::uint16_t>(records.size()));
  put_number(out, static_cast<std::uint32_t>(end - directory));
  put_number(out, static_cast<std::uint32_t>(directory));
  put_number(out, std::uint16_t{0});
}

}  // namespace

std::string torch_archive(const TorchArchive& archive) {
  std::vector<Record> records{{"data.pkl", archive.pickle}, {".format_version", "1"},
                              {".storage_alignment", "64"}, {"note", archive.note},
                              {"byteorder", "little"},      {"data/0", archive.elements},
                              {"version", "3\n"},           {".data/serialization_id", kId}};
  if (archive.note.empty())
    std::erase_if(records, [](const Record& r) { return r.name == "note"; });
  std::string out;
  for (Record& record : records) put_record(record, archive.wide, out);
  if (!archive.other_pickle.empty()) {
    records[0].content = archive.other_pickle;
    put_record(records[0], archive.wide, out);
  }
  put_directory(records, out);
  return out;
}

std::string torch_records(const std::vector<std::pair<std::string, std::string>>& contents) {
  std::vector<Record> records;
  for (const auto& [name, content] : contents) records.push_back({name, content});
  std::string out;
  for (Record& record : records) put_record(record, false, out);
  put_directory(records, out);
  return out;
}

std::string torch_archive(DType dtype, const Shape& shape, std::string_view elements) {
  return torch_archive({format::dcp::tensor_pickle(dtype, shape), std::string(elements)});
}

TorchCheckpoint& TorchCheckpoint::tensor(std::string_view name, DType dtype, const Shape& shape) {
  tensors_.push_back({std::string(name), dtype, shape, {}});
  return *this;
}

TorchCheckpoint& TorchCheckpoint::box(const Shape& begin, const Shape& extent,
                                      std::string_view item, std::string_view transform) {
  tensors_.back().boxes.push_back(
      {begin, extent, data_.size(), item.size(), std::string(transform)});
  data_ += item;
  return *this;
}

TorchCheckpoint& TorchCheckpoint::part(const Shape& begin, const Shape& extent,
                                       const std::string& tensor, bool packed) {
  const Tensor& of = tensors_.back();
  const std::size_t unit = format::unit_bytes(of.dtype);
  std::string elements(extent.numel() * unit, '\0');
  std::string all = tensor;
  copy_box(all, of.shape, elements, extent, begin, unit, /*back=*/false);
  const std::string item = torch_archive(of.dtype, extent, elements);
  return packed ? box(begin, extent, zstd_frame(item, {3, 0, false}), format::dcp::kZstdTransform)
                : box(begin, extent, item);
}

TorchCheckpoint& TorchCheckpoint::whole(std::string_view name, DType dtype, const Shape& shape) {
  return tensor(name, dtype, shape)
      .part(Shape(std::vector<std::uint64_t>(shape.rank())), shape,
            std::string(packed_bytes(dtype, shape.numel()), '\1'), false);
}

TorchCheckpoint& TorchCheckpoint::object(std::string_view name, std::string_view item) {
  objects_.push_back({std::string(name), data_.size(), item.size()});
  data_ += item;
  return *this;
}

void TorchCheckpoint::write(const std::string& path) const {
  std::string out;
  PickleWriter write(out);
  const auto object = [&](std::string_view module, std::string_view name) {
    write.global(module, name).op(Op::empty_tuple).op(Op::new_obj).op(Op::empty_dict).op(Op::mark);
  };
  const auto end_object = [&] { write.op(Op::set_items).op(Op::build); };
  write.begin();
  object(kClasses, "Metadata");
  write.text("state_dict_metadata").op(Op::empty_dict).op(Op::mark);
  for (const Tensor& tensor : tensors_) {
    write.text(tensor.name);
    object(kClasses, "TensorStorageMetadata");
    write.text("properties");
    object(kClasses, "TensorProperties");
    write.text("dtype").global("torch", format::torch_dtype(tensor.dtype)->name);
    end_object();
    write.text("size").integers(tensor.shape).text("chunks").op(Op::empty_list).op(Op::mark);
    for (const Box& box : tensor.boxes) {
      object(kClasses, "ChunkStorageMetadata");
      write.text("offsets").integers(box.begin).text("sizes").integers(box.extent);
      end_object();
    }
    write.op(Op::appends);
    end_object();
  }
  for (const Object& each : objects_) {
    write.text(each.name).global(kClasses, "BytesStorageMetadata");
    write.op(Op::empty_tuple).op(Op::new_obj);
  }
  write.op(Op::set_items).text("storage_data").op(Op::empty_dict).op(Op::mark);
  for (const Tensor& tensor : tensors_) {
    for (const Box& box : tensor.boxes) {
      object(kClasses, "MetadataIndex");
      write.text("fqn").text(tensor.name).text("offset").integers(box.begin);
      end_object();
      object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
      write.text("relative_path").text(kDataFile);
      write.text("offset").integer(box.offset).text("length").integer(box.length);
      if (!box.transform.empty()) {
        write.text("transform_descriptors").op(Op::empty_list).op(Op::mark).text(box.transform);
        write.op(Op::appends);
      }
      end_object();
    }
  }
  for (const Object& each : objects_) {
    object(kClasses, "MetadataIndex");
    write.text("fqn").text(each.name);
    end_object();
    object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
    write.text("relative_path").text(kDataFile);
    write.text("offset").integer(each.offset).text("length").integer(each.length);
    end_object();
  }
  write.op(Op::set_items);
  end_object();
  write.op(Op::stop);
  write_text(path + "/" + format::dcp::kMetadataFile, out);
  write_text(path + "/" + kDataFile, data_);
}

}  // namespace hfshard
