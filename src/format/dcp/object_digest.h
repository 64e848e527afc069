#pragma once

#include <string>

#include "catalog/object.h"

namespace hfshard::format::dcp {

/// Returns the SHA-256 of an object's contents, in hex, and checks the CRC of every record of its
/// archive. Skips torch's records about the archive itself, since they differ between releases.
/// Undoes `stream.zstd/1` for objects of up to 64 MiB. Hashes other bytes, and those that aren't an
/// archive, as they are stored. FORMAT.md, Objects. Throws: corrupt, io; with file, range and the
/// object's name.
std::string object_digest(const ObjectReader& reader, const ObjectInfo& object);

}  // namespace hfshard::format::dcp
