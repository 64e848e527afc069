#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytes/store.h"

#include "hfshard/io.h"

namespace hfshard {

/// Short trials of where files lie, for an estimate of how long a run takes. Each moves at most
/// kTrialBytes, and begins nothing new after kTrialSeconds.
inline constexpr std::uint64_t kTrialBytes = std::uint64_t{4} << 20;
inline constexpr double kTrialSeconds = 0.1;

/// What was moved, and how fast.
struct Trial {
  std::vector<std::byte> bytes;  ///< that were read
  double bytes_per_second = 0;
};

/// Reads pieces from all over a file in the way that a run would, and leaves none of them in the
/// page cache that was not there. Nothing if the file has less than kTrialBytes. Throws: as
/// Store::open_data.
std::optional<Trial> try_reading(const StorePath& path, IoMode wanted);

/// Writes to a file without a name in a directory, past the page cache where that can be, and waits
/// for the disk; it is gone afterwards, whatever happens. Throws: io (such files cannot be made
/// there, a full disk).
double try_writing(const std::string& directory);

/// Whether a file lies on the file system of a local path. Throws: io.
bool on_one_file_system(const StorePath& one, const std::string& other);

}  // namespace hfshard
