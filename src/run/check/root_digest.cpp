#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "run/check/output_manifest.h"

namespace hfshard {

std::string nested_digest(const std::vector<NestedName>& nested,
                          const std::function<bool(const std::string&)>& is_wanted) {
  Sha256 hash;
  bool any = false;
  for (const NestedName& name : nested) {
    if (!is_wanted(name.name)) continue;
    any = true;
    hash.update(fmt::format("{}\n{}\n", name.name, name.keys));
  }
  return any ? to_hex(std::span<const std::byte>(hash.finish())) : std::string();
}

std::string root_digest(const Model& model, const OutputDigests& digests) {
  // Leaves and tensors are sorted by name, so their numbers are.
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::string>> lines;
  lines.reserve(digests.sums.size());
  for (std::uint32_t t = 0; t < model.transfers.size(); ++t) {
    const Transfer& transfer = model.transfers[t];
    for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
      lines.emplace_back(transfer.target, transfer.sources[i],
                         digests.recorded[t] ? to_hex(digests.sums[model.digest_slot(t, i)]) : "-");
    }
  }
  std::ranges::sort(lines);
  Sha256 hash;
  for (const auto& [leaf, tensor, digest] : lines) {
    hash.update(fmt::format("{}\n{}\n{}\n", model.leaves[leaf].name,
                            model.catalog().tensors[tensor].name, digest));
  }
  for (const ObjectRecord& object : digests.objects)
    hash.update(fmt::format("{}\n{}\n{}\n", object.name, object.size_bytes, object.sha256));
  if (!digests.nested.empty()) hash.update(fmt::format("nested\n{}\n", digests.nested));
  return to_hex(std::span<const std::byte>(hash.finish()));
}

OutputDigests output_digests(const Plan& plan, std::vector<Digest128> sums,
                             const std::vector<std::string>& objects) {
  const Model& model = plan.model();
  HFSHARD_CHECK(objects.size() == model.objects.size());
  OutputDigests out;
  out.sums = std::move(sums);
  for (std::uint32_t t = 0; t < model.transfers.size(); ++t)
    out.recorded.push_back(plan.has_digest(t));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const ObjectInfo& info = model.catalog().objects[model.objects[i]];
    out.objects.push_back({info.name, info.size_bytes(), objects[i]});
  }
  if (model.keeps_nested) {
    out.nested = nested_digest(model.catalog().nested,
                               [&](const std::string& name) { return model.has_name(name); });
  }
  out.root = root_digest(model, out);
  return out;
}

}  // namespace hfshard
