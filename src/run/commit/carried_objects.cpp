// The run that publishes writes the objects of a source, once. Workers and journals don't know
// them. After a kill, the next run writes the file again.

#include "run/commit/carried_objects.h"

#include "bytes/local/files.h"
#include "run/commit/publish.h"
#include "run/engine/stop.h"

namespace hfshard {

CarriedObjects carried_objects(const Plan& plan) {
  CarriedObjects out;
  const std::uint32_t number = plan.data_files();
  out.file = plan.files().data_file(number, number + 1);
  for (const std::uint32_t index : plan.model().objects)
    out.items.push_back(&plan.catalog().objects[index]);
  return out;
}

void check_objects(const Plan& plan, const RunOptions& options) {
  const ObjectReader reader(plan.catalog().object_files);
  for (const std::uint32_t index : plan.model().objects) {
    check_stop(options);
    plan.model().source().object_digest(reader, plan.catalog().objects[index]);
  }
}

std::vector<std::string> write_objects(const Plan& plan, const Staging& staging,
                                       const RunOptions& options) {
  std::vector<std::string> out;
  if (plan.model().objects.empty()) return out;
  const CarriedObjects objects = carried_objects(plan);
  const ObjectReader reader(plan.catalog().object_files);
  const std::string& item = plan.files().item;
  write_staged(
      staging, options,
      {item.empty() ? objects.file : join_path(item, objects.file), [&](const ByteSink& sink) {
         for (const ObjectInfo* object : objects.items)
           out.push_back(object_sha256(reader, *object, sink));
       }});
  return out;
}

}  // namespace hfshard
