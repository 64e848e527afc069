#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bytes/store/store.h"

#include "hfshard/io.h"

namespace hfshard {

/// Short measurements of files' places, to estimate the time of a run. Each moves at most
/// kTrialBytes, and starts nothing after kTrialSeconds.
inline constexpr std::uint64_t kTrialBytes = std::uint64_t{4} << 20;
inline constexpr double kTrialSeconds = 0.1;

/// The bytes and speed of a measurement.
struct Trial {
  std::vector<std::byte> bytes;  ///< that were read
  double bytes_per_second = 0;
};

/// Reads pieces spread over a file as a run would. Leaves no pieces in the page cache that weren't
/// there before. Empty if the file has less than kTrialBytes. Throws: as Store::open_data.
std::optional<Trial> try_reading(const StorePath& path, IoMode wanted);

/// Writes to an unnamed file in a directory, bypassing the page cache if possible, and waits for
/// the disk. The file is always gone afterwards. Throws: io (such files can't be made there, a full
/// disk).
double try_writing(const std::string& directory);

/// Returns whether a file is on the file system of a local path. Throws: io.
bool on_one_file_system(const StorePath& one, const std::string& other);

}  // namespace hfshard
