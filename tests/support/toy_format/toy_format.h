#pragma once

#include "catalog/format.h"

namespace hfshard {

/// A format that no program but the tests knows: written, read, and in every respect that it may be
/// unlike Orbax's, so that whatever plan and run believe of formats is put to the test.
///
/// A step is `run-<n>/`, with everything in `store/`: `blob-<n>.toy`, pieces at multiples of 40
/// behind 21 bytes of its own; `places` (for each piece of each array, row-major: u64 file, offset,
/// length), `arrays.json`, `about.json` (what nobody needs for reading); and `DONE`, which commits:
/// the plan id and the hashes of the other three. A piece is "TOYPIECE", u32 number of cells, u32
/// crc32c of both; the cells, each with a crc32c behind it if there are checksums, each a zstd
/// frame if it is compressed; then a u32 length for each cell and their crc32c. It lacks bool, c64
/// and all types that do not fill bytes.
const Format& toy_format();

}  // namespace hfshard
