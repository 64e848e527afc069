#include "service/damage.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "service/describe.h"

namespace hfshard {
namespace {

constexpr std::size_t kReadBytes = std::size_t{4} << 20;

// Converts an error about bytes to a Damage. Within a catch, rethrows any other error.
Damage damage_of(const Error& error, const std::string& tensor) {
  const bool about_bytes = error.code() == ErrorCode::corrupt ||
                           error.code() == ErrorCode::not_found || error.code() == ErrorCode::io;
  if (!about_bytes) throw;
  Damage out;
  out.tensor = tensor;
  out.code = error.code();
  out.message = error.sentence();
  out.file = error.file();
  out.range = error.range();
  return out;
}

// Returns arrays in the order of their places in files. Split arrays keep their order.
std::vector<std::uint32_t> reading_order(const Catalog& catalog) {
  std::vector<std::uint32_t> order(catalog.tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t array) {
    const TensorInfo& info = catalog.tensors[array];
    return std::pair(info.file, info.begin_bytes);
  });
  return order;
}

// Reads pieces one after another and reuses its buffers.
class PieceDrain {
 public:
  PieceDrain(const Checkpoint& opened, Reporter& reporter) : opened_(opened), reporter_(reporter) {}

  // The piece exists, so a file's size bounds its size.
  void read(std::uint32_t array, const Shape& at) {
    const TensorInfo& info = opened_.catalog().tensors[array];
    const Grid grid = opened_.catalog().grid_of(array);
    const std::uint64_t cell = packed_bytes(info.dtype, grid.inner.numel());
    const bool whole = !info.is_whole() && cell <= kWholeCellBytes;
    const PieceSteps steps = whole ? PieceSteps::whole_cells : PieceSteps::any;
    buffer_.resize(whole ? cell : kReadBytes);
    scratch_.resize(opened_.scratch_bytes(array, steps));
    std::uint64_t left = packed_bytes(info.dtype, grid.chunk.numel());
    const auto reader = opened_.open_piece(array, at, steps, scratch_);
    while (left > 0) {
      const auto part = std::span(buffer_).first(std::min<std::uint64_t>(left, buffer_.size()));
      reader->read(part);
      reporter_.advanced(part.size());
      left -= part.size();
    }
  }

 private:
  const Checkpoint& opened_;
  Reporter& reporter_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> scratch_;
};

Damage missing_chunk(const Checkpoint& opened, const std::string& root, std::uint32_t array,
                     const Shape& chunk) {
  Damage out;
  out.tensor = opened.catalog().tensors[array].name;
  out.chunk = chunk;
  out.code = ErrorCode::not_found;
  out.message = "the chunk is missing: its key has no data";
  if (const auto place = opened.find_piece(array, chunk))
    out.file = shown_name(opened.catalog(), root, place->file);
  return out;
}

}  // namespace

// Returns a catalog file's name. Other files in the checkpoint get a relative path.
std::string shown_name(const Catalog& catalog, const std::string& root, const std::string& file) {
  const auto known = std::ranges::find_if(
      catalog.files, [&](const CatalogFile& each) { return each.path.text() == file; });
  if (known != catalog.files.end()) return known->name;
  std::string prefix = root;
  while (prefix.ends_with('/')) prefix.pop_back();
  prefix += '/';
  return file.starts_with(prefix) ? file.substr(prefix.size()) : file;
}

std::uint64_t chunk_total(const Catalog& catalog, std::uint32_t array) {
  return chunk_counts(catalog.tensors[array].shape, catalog.grid_of(array).chunk).numel();
}

DamageList find_missing_chunks(const Checkpoint& opened, const std::string& root,
                               std::size_t listed, std::string_view filter) {
  DamageList out;
  const Catalog& catalog = opened.catalog();
  for (std::uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    const TensorInfo& leaf = catalog.tensors[i];
    if (!fits(filter, leaf.name)) continue;
    out.checked += chunk_total(catalog, i);
    for_each_chunk(chunk_counts(leaf.shape, catalog.grid_of(i).chunk), [&](const Shape& at) {
      if (opened.has_piece(i, at)) return true;
      ++out.count;
      if (out.items.size() < listed) out.items.push_back(missing_chunk(opened, root, i, at));
      out.more = out.count >= kMaxMissing;
      return !out.more;
    });
    if (out.more) break;
  }
  return out;
}

DamageList read_chunks(const Checkpoint& opened, const std::string& root, Reporter& reporter,
                       std::string_view filter) {
  std::uint64_t total = 0;
  const Catalog& catalog = opened.catalog();
  for (const TensorInfo& array : catalog.tensors) {
    if (fits(filter, array.name)) total += packed_bytes(array.dtype, array.shape.numel());
  }
  reporter.started(total, 0);
  DamageList out;
  if (!catalog.wording.has_cuts) out.unit = catalog.wording.arrays;
  PieceDrain drain(opened, reporter);
  const auto visit = [&](std::uint32_t i, const Shape& at) {
    const TensorInfo& array = catalog.tensors[i];
    if (!opened.has_piece(i, at)) {
      out.items.push_back(missing_chunk(opened, root, i, at));
    } else {
      try {
        drain.read(i, at);
      } catch (const Error& error) {  // lists all damage, not only the first
        out.items.push_back(damage_of(error, array.name));
        if (!array.is_whole()) out.items.back().chunk = at;
        out.items.back().file = shown_name(catalog, root, error.file());
      }
    }
    out.more = out.items.size() >= kMaxMissing;
    return !out.more;
  };
  for (const std::uint32_t i : reading_order(catalog)) {
    const TensorInfo& array = catalog.tensors[i];
    if (!fits(filter, array.name)) continue;
    out.checked += array.is_whole() ? 1 : chunk_total(catalog, i);
    for_each_chunk(chunk_counts(array.shape, catalog.grid_of(i).chunk),
                   [&](const Shape& at) { return visit(i, at); });
    if (out.more) break;
  }
  out.count = out.items.size();
  return out;
}

void add_damaged_objects(const Checkpoint& opened, const std::string& root, std::string_view filter,
                         DamageList& found) {
  const Catalog& catalog = opened.catalog();
  if (catalog.objects.empty()) return;
  found.unit += " and objects";
  const ObjectReader reader(catalog.object_files);
  for (const ObjectInfo& object : catalog.objects) {
    if (!fits(filter, object.name)) continue;
    ++found.checked;
    try {
      opened.object_digest(reader, object);
    } catch (const Error& error) {  // lists all damage, not only the first
      found.items.push_back(damage_of(error, object.name));
      found.items.back().file = shown_name(catalog, root, error.file());
      ++found.count;
    }
  }
}

}  // namespace hfshard
