#pragma once

#include <string>

#include "format/orbax/metadata.h"
#include "format/orbax/orbax.h"
#include "support/checkpoint_builder.h"

namespace hfshard {

/// Makes small Orbax checkpoints with any form of index.
class OrbaxBuilder final : public CheckpointBuilder {
 public:
  explicit OrbaxBuilder(std::uint32_t files = 3, const Encoding& encoding = {})
      : CheckpointBuilder(format::orbax::orbax_format(), files, encoding) {}
  void write(const std::string& step, const format::orbax::ocdbt::TreeLimits& limits = {}) {
    CheckpointBuilder::write(step, format::orbax::side_files(tree(), *this, limits));
  }
};

}  // namespace hfshard
