#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/checkpoint.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"
#include "hfshard/report.h"

namespace hfshard {

/// One chunk or tensor that can't be read.
struct Damage {
  std::string tensor;
  std::optional<Shape> chunk;  ///< coordinates in the grid
  ErrorCode code = ErrorCode::corrupt;
  std::string message;
  std::string file;
  std::optional<ByteRange> range;
};

/// All damage of a checkpoint. `items` may be truncated. `count` is complete unless `more` is set.
struct DamageList {
  std::vector<Damage> items;
  std::uint64_t count = 0;
  std::uint64_t checked = 0;
  bool more = false;  ///< the search stopped at a million
  std::string unit = "chunks";
};

/// Options of `inspect`.
struct InspectOptions {
  bool data = false;                       ///< read all data to find all damage
  bool pieces = false;                     ///< list the place of each piece
  std::string filter;                      ///< glob on names; all if empty
  std::vector<std::string> load_meshes{};  ///< report the cost of loading
  std::uint64_t devices_per_host = 1;
  std::vector<std::string> axes{};          ///< --axes, for unknown axes
  std::optional<std::string> rules_text{};  ///< --rules FILE, or the default
  std::string rules_name = "default axis rules";
};

/// The result of `inspect`.
struct InspectReport {
  CheckpointInfo checkpoint;
  /// Without InspectOptions::data, the missing chunks, of which 20 are listed.
  DamageList damage;
  std::vector<LoadReport> loads{};  ///< per InspectOptions::load_meshes
};

}  // namespace hfshard
