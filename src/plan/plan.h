#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "catalog/piece.h"
#include "plan/layout/layout.h"
#include "plan/layout/mesh.h"

#include "hfshard/plan.h"

namespace hfshard {

/// A leaf that can't be linked.
struct NotLinked {
  std::uint32_t leaf = 0;
  std::string why;
};

/// The parts of a plan that aren't its layout.
struct PlanFacts {
  PlanOptions options;
  AxisRules rules;
  std::vector<Mesh> meshes;
  std::vector<NotLinked> not_linked;  ///< converted, if the plan links
  Json identity;                      ///< the parts of the plan id
};

/// The plan: the layout of an output, and the options that made it. It says which bytes go to which
/// place in which file. Linked leaves have no units: their chunks are in the source's files.
class Plan final : public Layout, public Placements {
 public:
  Plan(Layout layout, PlanFacts facts);

  const PlanOptions& options() const noexcept { return facts_.options; }
  const AxisRules& rules() const noexcept { return facts_.rules; }
  const std::vector<Mesh>& meshes() const noexcept { return facts_.meshes; }
  const std::vector<NotLinked>& not_linked() const noexcept { return facts_.not_linked; }
  const Json& identity() const noexcept { return facts_.identity; }
  /// 64 hex digits.
  const std::string& id() const noexcept { return id_; }

  std::uint64_t heap_bytes() const override;

  std::string file_path(std::uint32_t file) const override;
  /// Returns the number of data files. Larger numbers are those of the source's files.
  std::uint32_t file_count() const override { return data_files(); }
  Place place(std::uint32_t leaf, const Shape& chunk) const override;
  /// Returns the number of the output's step.
  std::uint64_t step() const noexcept { return options().step.value_or(0); }
  /// Returns the base of all file names, in the directory of a step.
  std::string item_directory(const std::string& step) const;
  /// Returns the files of the catalog that hold chunks of linked leaves, by index, ascending.
  std::vector<std::uint32_t> linked_files() const;
  /// Returns whether the digests of a transfer are recorded. False for linked data that isn't read.
  bool has_digest(std::uint32_t transfer) const {
    return options().digests || !grids()[model().transfers[transfer].target].linked;
  }

 private:
  Place linked_place(std::uint32_t leaf, const Shape& chunk) const;

  PlanFacts facts_;
  std::string id_;
};

/// Returns the form of a leaf's chunks (Format::form), so that plan need not know targets.
using FormFunction = std::function<PieceForm(const Leaf&, const Grid&)>;

/// Splits and lays out a model as the options say. `put`: for a target that stores arrays whole.
/// Throws: as make_unit_form, parse_mesh, shard_counts, Layout and `form`.
Plan build_plan(std::shared_ptr<const Model> model, const PlanOptions& options,
                const FormFunction& form, const FileLayout& files, const Limits& limits,
                const ArrayFilesFunction& put = {});

}  // namespace hfshard
