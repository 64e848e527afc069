#include "tool/inspect.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <utility>

#include "bytes/files.h"
#include "bytes/source.h"
#include "mapping/find.h"
#include "plan/grid.h"
#include "run/manifest.h"
#include "target/orbax/metadata.h"
#include "target/orbax/orbax.h"

namespace hfshard {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

bool is_directory(const std::string& path) {
  const auto info = file_info(path);
  return info && info->kind == FileKind::directory;
}

bool is_decimal(const std::string& name) {
  return !name.empty() &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

Damage missing_chunk(const OpenedLeaf& leaf, const Shape& chunk) {
  Damage out;
  out.tensor = leaf.path;
  out.chunk = chunk;
  out.code = ErrorCode::not_found;
  out.message = "the chunk is missing: the index has no key for it";
  return out;
}

// A path within the checkpoint is shown relative to it.
std::string relative_to(const std::string& root, const std::string& file) {
  std::string prefix = root;
  while (prefix.ends_with('/')) prefix.pop_back();
  prefix += '/';
  return file.starts_with(prefix) ? file.substr(prefix.size()) : file;
}

// What an error says about bytes. Rethrows (within a catch) what says nothing about them.
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

void read_range(const FileSource& source, ByteRange range, std::span<std::byte> buffer,
                Reporter& reporter) {
  while (range.begin < range.end) {
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(range.end - range.begin, buffer.size()));
    source.read_at(range.begin, buffer.first(step));
    reporter.advanced(step);
    range.begin += step;
  }
}

}  // namespace

bool is_orbax(const std::string& path) {
  namespace orbax = target::orbax;
  constexpr std::string_view kUnfinished = ".orbax-checkpoint-tmp";
  if (!is_directory(path)) return false;
  const std::vector<std::string> names = list_directory(path);
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (has(orbax::kManifestFile) || has(orbax::kTreeFile) || has(orbax::kStepFile)) return true;
  if (std::ranges::any_of(names, [](const std::string& name) {
        return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
      })) {
    return false;
  }
  return std::ranges::any_of(names, [&](const std::string& name) {
    if (name.find(kUnfinished) != std::string::npos || name.starts_with("ocdbt.process_"))
      return true;
    return (name == orbax::kItemDirectory || is_decimal(name)) &&
           is_directory(join_path(path, name));
  });
}

std::unique_ptr<OpenedCheckpoint> open_orbax(const std::string& path) {
  return target::orbax::make_orbax_target()->open(path);
}

std::string step_directory(const std::string& out) {
  if (exists(join_path(out, kManifestName))) return out;
  if (exists(join_path(parent_path(out), kManifestName))) return parent_path(out);
  std::string best;
  std::uint64_t highest = 0;
  if (const auto info = file_info(out); info && info->kind == FileKind::directory) {
    for (const std::string& name : list_directory(out)) {
      const bool decimal =
          !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
      if (!decimal || name.size() > 18 || !exists(join_path(join_path(out, name), kManifestName)))
        continue;
      const std::uint64_t step = std::stoull(name);
      if (best.empty() || step >= highest) best = join_path(out, name);
      highest = std::max(highest, step);
    }
  }
  return best;
}

std::uint64_t chunk_total(const OpenedLeaf& leaf) {
  return chunk_counts(leaf.shape, leaf.chunk_shape).numel();
}

DamageList find_missing_chunks(const OpenedCheckpoint& opened, std::size_t listed) {
  DamageList out;
  for (std::uint32_t i = 0; i < opened.leaves().size(); ++i) {
    const OpenedLeaf& leaf = opened.leaves()[i];
    out.checked += chunk_total(leaf);
    for_each_chunk(chunk_counts(leaf.shape, leaf.chunk_shape), [&](const Shape& at) {
      if (opened.has_chunk(i, at)) return true;
      ++out.count;
      if (out.items.size() < listed) out.items.push_back(missing_chunk(leaf, at));
      out.more = out.count >= kMostMissing;
      return !out.more;
    });
    if (out.more) break;
  }
  return out;
}

DamageList read_chunks(const OpenedCheckpoint& opened, const std::string& root,
                       Reporter& reporter) {
  std::uint64_t total = 0;
  for (const OpenedLeaf& leaf : opened.leaves())
    total += packed_bytes(leaf.dtype, leaf.shape.numel());
  reporter.started(total, 0);
  DamageList out;
  std::vector<std::byte> chunk;
  std::vector<std::byte> scratch;
  const auto visit = [&](std::uint32_t i, const Shape& at) {
    const OpenedLeaf& leaf = opened.leaves()[i];
    if (!opened.has_chunk(i, at)) {
      out.items.push_back(missing_chunk(leaf, at));
    } else {
      // Only now: that the chunk is there bounds its size by that of a file.
      chunk.resize(packed_bytes(leaf.dtype, leaf.chunk_shape.numel()));
      scratch.resize(opened.scratch_bytes(i));
      try {
        opened.read_chunk(i, at, chunk, scratch);
      } catch (const Error& error) {  // all damage is listed, not the first only
        out.items.push_back(damage_of(error, leaf.path));
        out.items.back().chunk = at;
        out.items.back().file = relative_to(root, error.file());
      }
      reporter.advanced(chunk.size());
    }
    out.more = out.items.size() >= kMostMissing;
    return !out.more;
  };
  for (std::uint32_t i = 0; i < opened.leaves().size() && !out.more; ++i) {
    const OpenedLeaf& leaf = opened.leaves()[i];
    out.checked += chunk_total(leaf);
    for_each_chunk(chunk_counts(leaf.shape, leaf.chunk_shape),
                   [&](const Shape& at) { return visit(i, at); });
  }
  out.count = out.items.size();
  return out;
}

DamageList read_tensors(const Catalog& catalog, Reporter& reporter) {
  std::vector<const TensorInfo*> order;
  std::uint64_t total = 0;
  for (const TensorInfo& tensor : catalog.tensors) {
    order.push_back(&tensor);
    total += tensor.size_bytes;
  }
  std::ranges::sort(order, {}, [](const TensorInfo* tensor) {
    return std::pair(tensor->file, tensor->begin_bytes);
  });
  reporter.started(total, 0);
  DamageList out;
  out.unit = "tensors";
  out.checked = order.size();
  std::vector<std::byte> buffer(kBufferBytes);
  std::optional<FileSource> source;
  std::uint32_t opened = 0;
  for (const TensorInfo* tensor : order) {
    const CatalogFile& file = catalog.files[tensor->file];
    try {
      if (!source || opened != tensor->file) {
        source.reset();
        source.emplace(file.path);
        opened = tensor->file;
      }
      read_range(*source, tensor->range(), buffer, reporter);
    } catch (const Error& error) {  // all damage is listed, not the first only
      out.items.push_back(damage_of(error, tensor->name));
      out.items.back().file = file.name;
    }
  }
  out.count = out.items.size();
  return out;
}

Json config_facts(const Catalog& catalog) {
  Json out = Json::Object();
  if (catalog.config_text.empty()) return out;
  const Json config = parse_json(catalog.config_text, "config.json");
  for (const std::string_view key : {"model_type", "architectures"}) {
    if (const Json* value = config.find(key)) out[key] = *value;
  }
  if (const FamilyFile* family = find_family(config)) out["family"] = family->name;
  return out;
}

}  // namespace hfshard
