#pragma once

#include "catalog/format.h"

namespace hfshard {

/// Returns a format that only the tests know. It is written and read, and it differs from Orbax's
/// in every possible respect. So it tests all assumptions of plan and run about formats.
///
/// A step is `run-<n>/`, with everything in `store/`. `blob-<n>.toy` has pieces at multiples of 40,
/// after 21 bytes of its own. `places` has u64 file, offset and length for each piece of each
/// array, row-major. There are also `arrays.json`, and `about.json`, which readers don't need.
/// `DONE` commits: it has the plan id and the hashes of the other three.
///
/// A piece is "TOYPIECE", u32 number of cells, and u32 crc32c of both. The cells follow, each with
/// a crc32c if there are checksums, and each a zstd frame if it is compressed. At the end are a u32
/// length for each cell and the lengths' crc32c. It lacks bool, c64 and all types that don't fill
/// bytes.
const Format& toy_format();

}  // namespace hfshard
