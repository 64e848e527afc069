#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/format.h"

namespace hfshard {

/// Returns all formats of hfshard, in the order in which they look at a place.
std::span<const Format* const> all_formats();

/// Returns the target format that is used if the user doesn't choose one.
const Format& default_target();
/// Returns the format with this name, or the default target for an empty one. Throws: usage (with
/// the formats that can be written).
const Format& format_of(std::string_view name);
/// Returns the names of the formats that can be written.
std::vector<std::string> target_names();

/// The format of a place, and the checkpoint that it found there.
struct Recognised {
  const Format* format = nullptr;
  Found found;
};
/// Returns the first format that recognises a place. Empty if none does. Throws: io.
std::optional<Recognised> recognise(const StorePath& path);

/// Opens a checkpoint with the format that recognises the place. If none does, opens it as a
/// Hugging Face directory, whose error says what is missing. Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_checkpoint(const StorePath& path, const Choice& choice = {});

/// Opens the source of convert and link: a place whose arrays are plain pieces. Other files there,
/// such as an index over them, don't matter. Throws: unsupported (a checkpoint of another format),
/// as Format::open_one.
std::unique_ptr<Checkpoint> open_source(const StorePath& location, const Choice& choice = {});
/// Returns whether a place has a model's files, possibly among others. Throws: io.
bool is_model_place(const StorePath& location);
/// Returns whether open_source uses Choice::root there. Throws: io.
bool takes_root(const StorePath& location);
/// Returns the first format that recognises the place and whose arrays aren't plain pieces. Null if
/// no format does. Throws: unsupported (hfshard can't read the place), io.
const Format* tree_format(const StorePath& location);
/// Opens a place with its tree_format. Null if it has no such format. Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_tree(const StorePath& location, const Choice& choice = {});
/// Lists the files next to the tree that open_tree opens, for a copy in the format `target`.
/// Throws: usage (the tree has another format), as Format::beside.
Beside beside_tree(const StorePath& location, const Choice& choice, std::string_view target);
/// Lists a directory's files that belong to a model but aren't weights: config, tokenizer, ...
std::vector<std::string> model_side_files(const StorePath& directory);
/// Returns whether a side file describes how the model was quantized.
bool describes_codes(std::string_view name);
/// Returns the catalog of the checkpoint at a place.
Catalog open_catalog(const StorePath& location);
/// Returns the tensor names of a place that has a model's metadata and none of its data. Throws:
/// bad_input, io.
std::optional<NameList> open_names(const StorePath& location);
/// Tells how to turn a tree with another trainer's names and shapes (Megatron-LM's) into a model.
/// Empty for all other trees. Throws: io.
std::string_view foreign_export(const StorePath& location);

/// Returns the hint that names these checkpoints, as words for the shell.
std::string hint_of_below(const std::vector<std::string>& places);

}  // namespace hfshard
