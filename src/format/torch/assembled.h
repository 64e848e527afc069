#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"

#include "hfshard/dtype.h"

namespace hfshard::format::torch {

/// A part of an array in a file: a box whose elements have any steps. In units (torch_dtype.h).
struct AssembledBox {
  std::uint32_t file = 0;         ///< index into Assembly::files
  std::uint64_t begin_bytes = 0;  ///< of its first element in the file
  Shape begin;                    ///< in the array
  Shape extent;
  Shape strides;
};

/// An array that isn't one run of bytes in a file.
struct AssembledArray {
  std::string name;
  Shape units;
  std::uint64_t unit_bytes = 1;
  std::uint64_t begin_bytes = 0;    ///< in the assembled file
  std::vector<AssembledBox> boxes;  ///< each element is in one
  std::uint64_t end_bytes() const { return begin_bytes + units.numel() * unit_bytes; }
};

/// Arrays that consist of parts, in a row as if they were a file. It stores no elements: a read
/// copies them from the files.
struct Assembly {
  std::string text;                ///< name for errors and reports
  std::vector<CatalogFile> files;  ///< with the parts
  std::vector<AssembledArray> arrays;

  /// Adds an array after the others and returns its offset. Throws: limit.
  std::uint64_t add(AssembledArray array);
};

/// Returns the catalog's file for an assembly. Its digest covers the places of all parts.
CatalogFile assembled_file(Assembly assembly);

}  // namespace hfshard::format::torch
