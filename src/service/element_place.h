#pragma once

#include <cstdint>
#include <string>

#include "catalog/checkpoint.h"
#include "plan/compile/model.h"

#include "hfshard/diff.h"

namespace hfshard {

/// Which element of a model's source becomes an element of a leaf, and where it lies; an empty
/// place if none does. `root`: what names of files are shown relative to.
ElementPlace element_place(const Model& model, std::uint32_t leaf, std::uint64_t element,
                           const std::string& root);
/// Where an element of an array lies.
ElementPlace element_place(const Checkpoint& checkpoint, std::uint32_t array, const Shape& index,
                           const std::string& root);

}  // namespace hfshard
