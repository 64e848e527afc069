#pragma once

#include <string>

#include "tool/cli.h"
#include "tool/options.h"

#include "hfshard/hub.h"

namespace hfshard {

/// Returns the help of a SOURCE: a model's files, or any checkpoint.
inline constexpr const char* kModelHelp =
    "Hugging Face directory, one .safetensors or PyTorch file, or a model of the Hub (ORG/NAME)";
inline constexpr const char* kSourceHelp =
    "Hugging Face directory, one .safetensors or PyTorch file, a model of the Hub (ORG/NAME), or "
    "an Orbax or PyTorch (DCP) checkpoint";

/// Returns --revision, for commands that take a source.
Option revision_option(std::string& revision);
/// Returns --ignore-index.
Option ignore_index_option(bool& ignore_index);
/// Returns --keep-files, for commands that read a whole source.
Option keep_files_option(bool& keep_files);
/// Returns the Hub's settings from the environment, with the names and defaults of huggingface_hub
/// (constants.py, utils/_auth.py). Throws: usage.
HubOptions hub_options(const Session& session);
/// Returns the source that the user typed.
SourceName source_name(const Session& session, std::string text, std::string revision);

}  // namespace hfshard
