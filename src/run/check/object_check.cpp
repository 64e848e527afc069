#include "run/check/object_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "run/engine/stop.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kOtherKeys = "its place in the saved state (planner_data) is another one";

// The digest of an object of the output; nothing if its bytes can't be read, which is added.
std::optional<std::string> digest_of(const ObjectReader& reader, const ObjectInfo& object,
                                     const RunOptions& options, VerifyResult& result) {
  try {
    return object_sha256(reader, object,
                         [&](std::span<const std::byte> /*bytes*/) { check_stop(options); });
  } catch (const Error& error) {  // damage is a finding
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
    result.differences.push_back(
        {object.name, "", "", error.sentence(), error.file(), error.range()});
    return std::nullopt;
  }
}

// Looks through the wanted objects and those that are there, both sorted by name.
class ObjectCheck {
 public:
  ObjectCheck(const Catalog& output, const RunOptions& options, VerifyResult& result)
      : output_(output), options_(options), result_(result), reader_(output.object_files) {}

  // `digest`: of the wanted one.
  template <typename Digest>
  void check(const std::string& name, std::uint64_t size_bytes, const Digest& digest,
             std::string_view whose) {
    while (next_ < output_.objects.size() && output_.objects[next_].name < name) unknown(whose);
    if (next_ == output_.objects.size() || output_.objects[next_].name != name) {
      result_.differences.push_back({name, "", "", "the object is missing"});
      return;
    }
    const ObjectInfo& found = output_.objects[next_++];
    ++result_.objects;
    result_.checked_bytes += found.size_bytes();
    if (found.size_bytes() != size_bytes) {
      add(found,
          fmt::format("the object has {} bytes, {} has {}", found.size_bytes(), whose, size_bytes));
      return;
    }
    const auto has = digest_of(reader_, found, options_, result_);
    if (has && *has != digest()) add(found, fmt::format("the object differs from {}", whose));
  }

  void finish(std::string_view whose) {
    while (next_ < output_.objects.size()) unknown(whose);
  }

 private:
  void unknown(std::string_view whose) {
    add(output_.objects[next_++], fmt::format("{} does not have this object", whose));
  }
  void add(const ObjectInfo& object, std::string what) {
    const std::string file = output_.object_files[object.file].text();
    what += fmt::format(" (in {})", printable(file));
    result_.differences.push_back({object.name, "", "", std::move(what), file, object.range});
  }

  const Catalog& output_;
  const RunOptions& options_;
  VerifyResult& result_;
  ObjectReader reader_;
  std::size_t next_ = 0;
};

}  // namespace

void verify_recorded_objects(const Catalog& output, const OutputDigests& recorded,
                             const RunOptions& options, VerifyResult& result) {
  constexpr const char* kWhose = "hfshard.json";
  ObjectCheck check(output, options, result);
  for (const ObjectRecord& object : recorded.objects)
    check.check(
        object.name, object.size_bytes, [&] { return object.sha256; }, kWhose);
  check.finish(kWhose);
  const auto all = [](const std::string&) { return true; };
  if (nested_digest(output.nested, all) == recorded.nested) return;
  result.differences.push_back(
      {"", "", "", "planner_data of the checkpoint isn't what hfshard.json records"});
}

void verify_source_objects(const Catalog& output, const Plan& plan, const RunOptions& options,
                           VerifyResult& result) {
  constexpr const char* kWhose = "the source";
  const Catalog& source = plan.catalog();
  const Model& model = plan.model();
  const ObjectReader reader(source.object_files);
  ObjectCheck check(output, options, result);
  for (const std::uint32_t index : model.objects) {
    const ObjectInfo& object = source.objects[index];
    check.check(
        object.name, object.size_bytes(), [&] { return object_sha256(reader, object); }, kWhose);
  }
  check.finish(kWhose);
  if (!model.keeps_nested) return;
  const auto compare = [&](const std::string& name) {
    if (nested_keys(source.nested, name) != nested_keys(output.nested, name))
      result.differences.push_back({name, "", "", kOtherKeys});
  };
  for (const Leaf& leaf : model.leaves) compare(leaf.name);
  for (const std::uint32_t index : model.objects) compare(source.objects[index].name);
}

}  // namespace hfshard
