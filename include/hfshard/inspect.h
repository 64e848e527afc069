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

/// One chunk or tensor that cannot be read.
struct Damage {
  std::string tensor;
  std::optional<Shape> chunk;  ///< its place in the grid
  ErrorCode code = ErrorCode::corrupt;
  std::string message;
  std::string file;
  std::optional<ByteRange> range;
};

/// Everything that was found. `items` may be cut short; `count` is not, unless `more` says so.
struct DamageList {
  std::vector<Damage> items;
  std::uint64_t count = 0;
  std::uint64_t checked = 0;
  bool more = false;  ///< the search gave up: at least a million are missing
  std::string unit = "chunks";
};

/// What `inspect` is asked.
struct InspectOptions {
  bool data = false;    ///< read everything, so that whatever is damaged is found
  bool pieces = false;  ///< tell where each piece is
  std::string filter;   ///< shell-style pattern of the names that are looked at; empty: all
  std::vector<std::string> load_meshes{};  ///< what loading it on each of these costs
  std::uint64_t devices_per_host = 1;
  std::vector<std::string> axes{};          ///< --axes: of arrays whose axes nothing else tells
  std::optional<std::string> rules_text{};  ///< --rules FILE; absent: as a plan has them
  std::string rules_name = "default axis rules";
};

/// What is in a checkpoint.
struct InspectReport {
  CheckpointInfo checkpoint;
  DamageList damage;  ///< without InspectOptions::data chunks that are missing, the first 20 listed
  std::vector<LoadReport> loads{};  ///< one for each of InspectOptions::load_meshes
};

}  // namespace hfshard
