#include "catalog/object.h"

#include <algorithm>
#include <span>

#include "base/digest.h"
#include "base/heap.h"

namespace hfshard {

std::uint64_t heap_bytes(const ObjectInfo& object) {
  return heap_bytes(object.name) + heap_bytes(object.transforms);
}

std::uint64_t heap_bytes(const NestedName& name) {
  return heap_bytes(name.name) + heap_bytes(name.keys);
}

std::string_view nested_keys(const std::vector<NestedName>& names, std::string_view name) {
  const auto at = std::ranges::lower_bound(
      names, name, {}, [](const NestedName& each) { return std::string_view(each.name); });
  return at == names.end() || at->name != name ? std::string_view() : std::string_view(at->keys);
}

std::shared_ptr<const SourceFile> ObjectReader::open(const ObjectInfo& object) const {
  try {
    return open_.open(object.file, files_[object.file]);
  } catch (Error& error) {  // only here is the object known
    throw error.in_tensor(object.name);
  }
}

void ObjectReader::read(const ObjectInfo& object, const ByteSink& sink) const {
  const auto file = open(object);
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kStepBytes, object.size_bytes()));
  for (std::uint64_t at = object.range.begin; at < object.range.end;) {
    const auto part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), object.range.end - at));
    try {
      file->read_at(at, part);
    } catch (Error& error) {  // only here is the object known
      throw error.in_tensor(object.name);
    }
    sink(part);
    file->done_with(at, part.size());
    at += part.size();
  }
}

std::string object_sha256(const ObjectReader& reader, const ObjectInfo& object,
                          const ByteSink& also) {
  Sha256 hash;
  reader.read(object, [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    if (also) also(bytes);
  });
  return to_hex(std::span<const std::byte>(hash.finish()));
}

}  // namespace hfshard
