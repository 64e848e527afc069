#pragma once

#include <string>
#include <string_view>

/// How people write a mesh.
namespace hfshard {

/// Returns the mesh axis that other programs name so, such as `tp` or `ici-fsdp-parallelism`, or an
/// empty text.
std::string axis_of(std::string_view axis);
/// Translates `tp=2,fsdp:4`, `fsdp=4 tp=2`, `{"fsdp": 4}` or `16` to this program's axes.
std::string mesh_of(std::string typed);
/// Returns whether a word has the form `fsdp=8`.
bool is_axis(const std::string& word);
/// Returns whether a text is a list of axes.
bool is_mesh(const std::string& text);

}  // namespace hfshard
