#include "conformance/samples.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "format/torch_dtype.h"
#include "support/checkpoint_builder.h"
#include "support/safetensors_builder.h"
#include "support/torch_checkpoint.h"
#include "support/torch_file_builder.h"

#include "hfshard/error.h"

namespace hfshard::conformance {
namespace {

struct Case {
  std::string name;
  DType dtype;
  Shape shape;
  Shape chunk;
  Shape inner;
};

// Cases that every format must keep: all dtypes, scalars, empty arrays, five dims, uneven edges,
// long names. The chunks matter only to formats that split arrays.
std::vector<Case> sample_cases(bool inner = true) {
  std::vector<Case> out;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    out.push_back({"p.types." + std::string(to_string(dtype)), dtype, {7, 8}, {2, 8}, {2, 8}});
  }
  out.push_back({"p.scalar", DType::f16, {}, {}, {}});
  out.push_back({"p.empty", DType::f32, {0, 4}, {1, 4}, {1, 4}});
  out.push_back({"p.five", DType::i16, {3, 2, 2, 3, 4}, {2, 2, 1, 3, 2}, {1, 2, 1, 3, 1}});
  out.push_back({"p.uneven", DType::bf16, {5, 3, 8}, {2, 3, 4}, {1, 3, 2}});
  out.push_back({"p.large", DType::u8, {500, 700}, {300, 700}, {100, 350}});
  out.push_back({"p.plain", DType::f32, {333, 100}, {333, 100}, {333, 100}});
  out.push_back({"z." + std::string(4096, 'n'), DType::f32, {3}, {2}, {2}});
  for (Case& each : out) {
    if (!inner) each.inner = each.chunk;
  }
  return out;
}

// Returns whether a format claims to store an array. Others are refused by name.
bool claims(const Format& format, const Case& each) {
  const Leaf leaf{{each.name, each.dtype, each.shape}, {}, {}};
  try {
    format.form(leaf, {each.chunk, each.chunk, each.inner}, {});
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported || error.tensor() != each.name) throw;
    return false;
  }
}

Sample write_with(const Format& format, const Encoding& encoding, const std::string& path) {
  CheckpointBuilder builder(format, 3, encoding);
  for (const Case& each : sample_cases(format.layout().inner_chunks)) {
    if (claims(format, each))
      builder.leaf(each.name, each.dtype, each.shape, each.chunk, each.inner);
  }
  builder.build().write(path);
  Sample out;
  out.what = std::string(format.name()) + (encoding.checksum ? ", checksums" : "") +
             (encoding.zstd_level > 0 ? ", zstd" : "");
  out.path = path;
  out.has_checksums = encoding.checksum;
  for (std::size_t i = 0; i < builder.leaves().size(); ++i) {
    const Leaf& leaf = builder.leaves()[i];
    out.arrays.push_back({leaf.name, leaf.dtype, leaf.shape, builder.value(i)});
  }
  for (std::uint32_t file = 0; file < builder.file_count(); ++file)
    out.data_files.push_back(builder.data_path(path, file));
  return out;
}

// Items that went through a transform, as only torch writes them. Some bits of their packing are
// unused, so their flips aren't detected.
Sample packed_sample(const std::string& path) {
  Sample out;
  out.what = "dcp, packed items";
  out.path = path;
  out.data_files.push_back(path + "/" + TorchCheckpoint::kDataFile);
  TorchCheckpoint made;
  std::mt19937 random(5);
  for (const Case& each : sample_cases(false)) {
    if (each.name.starts_with("p.types.")) continue;
    std::string value(packed_bytes(each.dtype, each.shape.numel()), '\0');
    for (char& byte : value) byte = static_cast<char>(random() & 0x3fU);
    made.tensor(each.name, each.dtype, each.shape);
    for_each_chunk(chunk_counts(each.shape, each.chunk), [&](const Shape& at) {
      Shape begin = at;
      Shape extent = each.chunk;
      for (std::size_t d = 0; d < at.rank(); ++d) {
        begin[d] *= each.chunk[d];
        extent[d] = std::min(extent[d], each.shape[d] - begin[d]);
      }
      made.part(begin, extent, value, true);
    });
    out.arrays.push_back({each.name, each.dtype, each.shape, std::move(value)});
  }
  made.write(path);
  return out;
}

Sample safetensors_sample(const std::string& path, bool in_parts) {
  Sample out;
  out.what = in_parts ? "safetensors, two files and an index" : "safetensors, one file";
  out.path = in_parts ? path : path + "/model.safetensors";
  std::vector<SafetensorsBuilder> files(in_parts ? 2 : 1);
  std::vector<std::pair<std::string, std::string>> index;
  for (std::size_t i = 0; i < files.size(); ++i) {
    out.data_files.push_back(path + (in_parts ? "/part-" + std::to_string(i) + ".safetensors"
                                              : std::string("/model.safetensors")));
  }
  for (const Case& each : sample_cases()) {
    const std::size_t to = out.arrays.size() % files.size();
    files[to].tensor(each.name, each.dtype, each.shape);
    index.emplace_back(each.name, "part-" + std::to_string(to) + ".safetensors");
    out.arrays.push_back({each.name, each.dtype, each.shape, files[to].data_of(each.name)});
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].align(8, 3 + i);  // payloads at any address
    files[i].write(out.data_files[i]);
  }
  if (in_parts) write_text(path + "/model.safetensors.index.json", index_json(index));
  return out;
}

// With `turned`, matrices are stored by columns.
Sample torch_sample(const std::string& path, bool turned) {
  Sample out;
  out.what = turned ? "torch, matrices by columns" : "torch";
  out.path = path;
  out.data_files.push_back(path + "/pytorch_model.bin");
  TorchFileBuilder made;
  std::mt19937 random(9);
  for (const Case& each : sample_cases()) {
    if (format::torch_dtype(each.dtype) == nullptr) continue;
    std::string value(packed_bytes(each.dtype, each.shape.numel()), '\0');
    for (char& byte : value) byte = static_cast<char>(random() & 1U);
    const Shape units = format::to_units(each.dtype, each.shape);
    const std::size_t unit = format::unit_bytes(each.dtype);
    if (turned && units.rank() == 2 && units.numel() > 0) {
      std::string columns(value.size(), '\0');
      for (std::size_t i = 0; i < units.numel(); ++i) {
        const std::size_t to = i % units[1] * units[0] + i / units[1];
        columns.replace(to * unit, unit, value, i * unit, unit);
      }
      made.view(each.name, each.dtype, units, {1, units[0]}, 0, made.storage(columns));
    } else {
      made.tensor(each.name, each.dtype, units, value);
    }
    out.arrays.push_back({each.name, each.dtype, each.shape, std::move(value)});
  }
  made.write(out.data_files.front());
  return out;
}

}  // namespace

std::vector<Sample> make_samples(const Format& format, const TempDir& dir) {
  const std::string root = dir / std::string(format.name());
  if (format.name() == "safetensors")
    return {safetensors_sample(root + "/one", false), safetensors_sample(root + "/parts", true)};
  if (format.name() == "torch")
    return {torch_sample(root + "/rows", false), torch_sample(root + "/columns", true)};
  if (!format.writes() || format.discards()) return {};
  std::vector<Sample> out = {write_with(format, {true}, root + "/crc"),
                             write_with(format, {false}, root + "/plain")};
  if (format.name() == "dcp") out.push_back(packed_sample(root + "/packed"));
  if (!format.layout().uncompressed.empty()) return out;
  out.push_back(write_with(format, {true, 1}, root + "/zstd-crc"));
  out.push_back(write_with(format, {false, 3}, root + "/zstd"));
  return out;
}

}  // namespace hfshard::conformance
