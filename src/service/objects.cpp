#include "service/objects.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <fmt/format.h>

#include "base/json.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool keeps_names(const Catalog& source, const CompiledModel& model) {
  const auto keeps = [&](const Transfer& transfer) {
    return transfer.sources.size() == 1 &&
           source.tensors[transfer.sources.front()].name == model.leaves[transfer.target].name;
  };
  return model.fills.empty() && std::ranges::all_of(model.transfers, keeps);
}

// Tracks which elements of the saved lists are kept.
class Lists {
 public:
  // `kept`: whether the output has the array or object with this name.
  void add(const NestedName& nested, bool kept) {
    std::string list;  // the keys above, which tell lists apart
    const Json keys = parse_json(nested.keys, nested.name);
    for (const Json& key : keys.as_array()) {
      if (!key.is_string()) {
        Element& element = lists_[list][key.as_uint()];
        element.kept = element.kept || kept;
        if (!kept && element.left_out.empty()) element.left_out = nested.name;
      }
      list += dump_json(key) + ",";
    }
  }

  // Throws: usage (an element is left out, but a later one is kept).
  void refuse_gaps(const std::string& location) const {
    for (const auto& [list, elements] : lists_) {
      const std::string* gap = nullptr;
      for (const auto& [index, element] : elements) {
        if (!element.kept) {
          gap = &element.left_out;
        } else if (gap != nullptr) {
          throw Error(
              ErrorCode::usage,
              "the list would have a gap: this element is left out, and later ones are kept")
              .in_file(location)
              .in_tensor(*gap)
              .hint(
                  "torch can't load a list with a gap; leave out the whole list, or its last "
                  "elements");
        }
      }
    }
  }

 private:
  struct Element {
    bool kept = false;
    std::string left_out;  // the first name left out of it
  };
  std::map<std::string, std::map<std::uint64_t, Element>> lists_;
};

void refuse_gaps(const Catalog& source, const CompiledModel& model) {
  const std::size_t there =
      source.tensors.size() + source.objects.size() + source.unreadable.size();
  if (model.leaves.size() + model.objects.size() == there) return;
  const auto is_kept = [&](const std::string& name) {
    const auto leaf = std::ranges::lower_bound(model.leaves, name, {}, &Leaf::name);
    if (leaf != model.leaves.end() && leaf->name == name) return true;
    const auto name_of = [&](std::uint32_t object) -> const std::string& {
      return source.objects[object].name;
    };
    return std::ranges::binary_search(model.objects, name, {}, name_of);
  };
  Lists lists;
  for (const NestedName& nested : source.nested) lists.add(nested, is_kept(nested.name));
  lists.refuse_gaps(source.location);
}

// Throws: bad_input (the target can't hold any of it).
[[noreturn]] void refuse(const Catalog& source, const Format& target) {
  const std::size_t count = source.objects.size();
  throw Error(
      ErrorCode::bad_input,
      fmt::format("no tensors are left to write, and format {} can't hold the checkpoint's {}",
                  target.name(),
                  count == 1 ? std::string("1 object") : fmt::format("{} objects", count)))
      .in_file(source.location)
      .hint("run reshard --to dcp to keep objects; hfshard inspect lists them");
}

}  // namespace

void choose_objects(const Catalog& source, const MappingOptions& options, const Format& target,
                    CompiledModel& model) {
  const bool holds = target.layout().objects;
  model.keeps_nested = holds && keeps_names(source, model);
  const std::string why =
      holds ? "not a tensor, and the names of the checkpoint change"
            : fmt::format("not a tensor, which the format {} can't hold", target.name());
  for (std::uint32_t i = 0; i < source.objects.size(); ++i) {
    const std::string& name = source.objects[i].name;
    if (const auto asked = left_out(options, name)) {
      model.left_out.push_back({name, asked->why});
    } else if (model.keeps_nested) {
      model.objects.push_back(i);
    } else if (!target.discards()) {
      model.left_out.push_back({name, why});
    }
  }
  if (model.keeps_nested) refuse_gaps(source, model);
  if (model.leaves.empty() && model.objects.empty() && !target.discards()) refuse(source, target);
}

}  // namespace hfshard
