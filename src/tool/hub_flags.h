#pragma once

#include <string>

#include "tool/cli.h"
#include "tool/options.h"

#include "hfshard/hub.h"

namespace hfshard {

/// What every help says of a source.
inline constexpr const char* kSourceHelp =
    "HuggingFace directory, one .safetensors file, or a model of the hub (ORG/NAME)";

/// --revision, of every command that takes a source.
Option revision_option(std::string& revision);
/// --keep-files, of commands that read all of a source.
Option keep_files_option(bool& keep_files);
/// What the environment says of the hub, with the names and defaults of huggingface_hub (its
/// constants.py and utils/_auth.py). Throws: usage.
HubOptions hub_options(const Session& session);
/// A source as it was typed.
SourceName source_name(const Session& session, std::string text, std::string revision);

}  // namespace hfshard
