#pragma once

#include "tool/cli.h"

namespace hfshard {

/// Returns the command `mappings check`.
Command mappings_check_command(Session& session);

}  // namespace hfshard
