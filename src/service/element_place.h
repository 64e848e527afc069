#pragma once

#include <cstdint>
#include <string>

#include "catalog/checkpoint.h"
#include "plan/compile/model.h"

#include "hfshard/diff.h"

namespace hfshard {

/// Returns the element of a model's source that becomes an element of a leaf, and its place; an
/// empty place if there isn't one. `root`: file names are relative to it.
ElementPlace element_place(const Model& model, std::uint32_t leaf, std::uint64_t element,
                           const std::string& root);
/// Returns the place of an array's element.
ElementPlace element_place(const Checkpoint& checkpoint, std::uint32_t array, const Shape& index,
                           const std::string& root);

}  // namespace hfshard
