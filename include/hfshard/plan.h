#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/encoding.h"
#include "hfshard/mapping.h"

namespace hfshard {

/// Every option that affects bytes (design.md 2.8). Anything else is an option of the run.
struct PlanOptions {
  MappingOptions mapping;
  std::string target;               ///< name of a format that is written; empty: the default one
  std::vector<std::string> meshes;  ///< as typed: "fsdp=16,expert=2"; empty: default_mesh
  std::optional<std::string>
      rules_text;  ///< contents of --rules FILE; absent: the scheme's default
  std::string rules_name = "default axis rules";  ///< in errors
  std::uint64_t chunk_bytes = std::uint64_t{64} << 20;
  std::uint64_t step = 0;
  Encoding encoding;
  bool link = false;  ///< index only: chunks are byte ranges of the source's files where they can
  bool in_place = false;  ///< and the index lies in the source's directory
  bool digests = true;    ///< record the digests of what is linked, which takes reading it
};

}  // namespace hfshard
