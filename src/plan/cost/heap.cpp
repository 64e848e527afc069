#include "plan/cost/heap.h"

#include "base/heap.h"

namespace hfshard {
namespace {

std::uint64_t of_leaf(const Leaf& leaf) {
  return heap_bytes(leaf.name) + heap_bytes(leaf.axes) + heap_bytes(leaf.stacked);
}

std::uint64_t of_transfer(const Transfer& transfer) {
  return heap_bytes(transfer.loops) + heap_bytes(transfer.sources) +
         transfer.map.digits.heap_bytes() +
         (transfer.decode ? heap_bytes(transfer.decode->scales) : 0);
}

std::uint64_t of_model(const CompiledModel& model) {
  return heap_bytes(model.rules) + heap_bytes(model.leaves, of_leaf) +
         heap_bytes(model.transfers, of_transfer) +
         heap_bytes(model.fills, [](const Fill& fill) { return fill.map.digits.heap_bytes(); }) +
         heap_bytes(
             model.drops,
             [](const Drop& drop) { return drop.map.digits.heap_bytes() + heap_bytes(drop.why); }) +
         heap_bytes(model.axis_rules) + heap_bytes(model.notes) + heap_bytes(model.model_names);
}

std::uint64_t of_options(const PlanOptions& options) {
  const MappingOptions& mapping = options.mapping;
  return heap_bytes(options.meshes) + (options.rules_text ? heap_bytes(*options.rules_text) : 0) +
         heap_bytes(mapping.options) + heap_bytes(mapping.include) + heap_bytes(mapping.exclude) +
         heap_bytes(mapping.files,
                    [](const MappingFile& file) {
                      return heap_bytes(file.family) + heap_bytes(file.name) +
                             heap_bytes(file.text);
                    }) +
         heap_bytes(mapping.casts, [](const Cast& cast) { return heap_bytes(cast.glob); });
}

std::uint64_t of_unit(const UnitForm& form) {
  return heap_bytes(form.closed) + heap_bytes(form.loop) + heap_bytes(form.order);
}

std::uint64_t of_rule(const AxisRules::Rule& rule) {
  return heap_bytes(rule.logical) + heap_bytes(rule.mesh_axes);
}

std::uint64_t of_mesh(const Mesh& mesh) {
  return heap_bytes(mesh.axes, [](const Mesh::Axis& axis) { return heap_bytes(axis.name); });
}

// What build_plan finds once, beside the groups of units.
std::uint64_t of_indices(const Plan& plan) {
  return heap_bytes(plan.leaf_transfers) + heap_bytes(plan.leaf_transfer_begin) +
         heap_bytes(plan.leaf_fills) + heap_bytes(plan.leaf_fill_begin) +
         heap_bytes(plan.leaf_groups) + heap_bytes(plan.leaf_group_begin) +
         heap_bytes(plan.group_chunks) + heap_bytes(plan.slot_begin);
}

}  // namespace

std::uint64_t heap_bytes(const Plan& plan) {
  return heap_bytes(plan.catalog) + of_model(plan.model) + of_options(plan.options) +
         heap_bytes(plan.rules.rules, of_rule) + heap_bytes(plan.meshes, of_mesh) +
         plan.grids.heap_bytes([](const Grid& grid) { return heap_bytes(grid.order); }) +
         plan.units.heap_bytes(of_unit) + heap_bytes(plan.groups) + heap_bytes(plan.file_begin) +
         heap_bytes(plan.identity) + heap_bytes(plan.id) +
         heap_bytes(plan.not_linked, [](const NotLinked& item) { return heap_bytes(item.why); }) +
         of_indices(plan);
}

}  // namespace hfshard
