#pragma once

#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns config.json as the options ask for it: with --untie, the config of the same model with
/// its own output head. `name`: its path, for errors. Throws: usage (--untie without a config).
std::string config_as_asked(const std::string& text, const std::string& name,
                            const MappingOptions& mapping);

/// Applies --untie to the config of `model`. `source`: its origin if the model has no config.
/// Throws: usage, as above.
void write_untied(const MappingOptions& mapping, const Catalog& source, CompiledModel& model);

/// Sets `torch_dtype` or `dtype` of a model's config, and of its parts (text, vision, audio). The
/// value is the dtype of most of their elements, because transformers casts all tensors to it. Adds
/// a note, unless the dtype was `asked` for. Does nothing for quantized codes, or for a config
/// without a dtype.
void write_dtype(const Catalog& source, std::optional<DType> asked, CompiledModel& model);

/// Leaves quantization_config out of a model's config if tensors were decoded and no codes are
/// left. A loader would look for the codes. `source`: as above.
void write_without_codes(const Catalog& source, CompiledModel& model);

/// Does the same for the export of a tree, which can have been decoded earlier.
void write_without_leftover(const Catalog& tree, CompiledModel& model);

/// Notes parts that a config describes (vision_config, audio_config) and of which an export has no
/// tensor.
void note_lacking_parts(const std::string& config_text, CompiledModel& model);

/// Sets the number of multi-token prediction layers in the config to 0 if the model lacks their
/// tensors. Programs that predict with these layers look for the tensors.
void count_no_mtp(const Catalog& tree, CompiledModel& model);

}  // namespace hfshard
