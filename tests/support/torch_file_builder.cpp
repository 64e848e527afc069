#include "support/torch_file_builder.h"

#include "format/dcp/pickle_writer.h"
#include "format/torch_dtype.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"

namespace hfshard {

using format::Op;

std::size_t TorchFileBuilder::storage(std::string bytes) {
  storages_.push_back(std::move(bytes));
  return storages_.size() - 1;
}

TorchFileBuilder& TorchFileBuilder::view(std::string_view name, DType dtype, const Shape& shape,
                                         const Shape& strides, std::uint64_t offset,
                                         std::size_t storage) {
  views_.push_back({std::string(name), dtype, shape, strides, offset, storage, true});
  return *this;
}

TorchFileBuilder& TorchFileBuilder::tensor(std::string_view name, DType dtype, const Shape& shape,
                                           std::string_view elements) {
  return view(name, dtype, shape, shape.strides(), 0, storage(std::string(elements)));
}

TorchFileBuilder& TorchFileBuilder::other(std::string_view name) {
  views_.push_back({std::string(name), DType::u8, {}, {}, 0, 0, false});
  return *this;
}

TorchFileBuilder& TorchFileBuilder::below(std::string_view key) {
  keys_.emplace_back(key);
  return *this;
}

TorchFileBuilder& TorchFileBuilder::overstate(std::uint64_t bytes) {
  overstated_ = bytes;
  return *this;
}

TorchFileBuilder& TorchFileBuilder::record(std::string_view name, std::string_view content) {
  records_.emplace_back(name, content);
  return *this;
}

std::string TorchFileBuilder::pickle() const {
  std::string out;
  format::dcp::PickleWriter write(out);
  write.begin();
  for (const std::string& key : keys_) write.op(Op::empty_dict).text(key);
  write.op(Op::empty_dict).op(Op::mark);
  for (const View& view : views_) {
    write.text(view.name);
    if (!view.is_tensor) {
      write.integer(3);
      continue;
    }
    const format::TorchDType& torch = *format::torch_dtype(view.dtype);
    const bool untyped = torch.storage.empty();
    const std::uint64_t bytes = storages_[view.storage].size() + overstated_;
    write.global("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    write.op(Op::mark).op(Op::mark).text("storage");
    if (untyped) write.global("torch.storage", "UntypedStorage");
    if (!untyped) write.global("torch", torch.storage);
    write.text(std::to_string(view.storage)).text("cpu");
    write.integer(untyped ? bytes : bytes / format::unit_bytes(view.dtype));
    write.op(Op::tuple).op(Op::bin_pers_id).integer(view.offset);
    write.integers(view.shape).integers(view.strides).op(Op::new_false);
    write.global("collections", "OrderedDict").op(Op::empty_tuple).op(Op::reduce);
    if (untyped) write.global("torch", torch.name);
    write.op(Op::tuple).op(Op::reduce);
  }
  write.op(Op::set_items);
  for (std::size_t i = 0; i < keys_.size(); ++i) write.op(Op::set_item);
  write.op(Op::stop);
  return out;
}

std::string TorchFileBuilder::bytes() const {
  std::vector<std::pair<std::string, std::string>> records{{"data.pkl", pickle()},
                                                           {"byteorder", "little"}};
  for (std::size_t i = 0; i < storages_.size(); ++i)
    records.emplace_back("data/" + std::to_string(i), storages_[i]);
  records.emplace_back("version", "3\n");
  for (const auto& [name, content] : records_) {
    std::erase_if(records, [&own = name](const auto& each) { return each.first == own; });
    records.emplace_back(name, content);
  }
  return torch_records(records);
}

void TorchFileBuilder::write(const std::string& path) const { write_text(path, bytes()); }

}  // namespace hfshard
