#include "catalog/array.h"

#include "base/text.h"

namespace hfshard {
namespace {
constexpr std::string_view kOnMesh = "mesh:";
constexpr char kAnd = '+';
}  // namespace

std::string axis_on_mesh(const std::vector<std::string>& mesh_axes) {
  return std::string(kOnMesh) + join(mesh_axes, std::string(1, kAnd));
}

std::vector<std::string> mesh_axes_of(std::string_view axis) {
  if (!axis.starts_with(kOnMesh) || axis.size() == kOnMesh.size()) return {};
  return split(axis.substr(kOnMesh.size()), kAnd);
}

}  // namespace hfshard
