#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/format.h"

namespace hfshard {

/// Every format of this program, in the order in which a place is looked at.
std::span<const Format* const> all_formats();

/// The format that is written unless another one is asked for.
const Format& default_target();
/// The format of that name; of an empty one, the default target. Throws: usage, naming those that
/// can be written.
const Format& format_of(std::string_view name);
/// Names of those that can be written.
std::vector<std::string> target_names();

/// The format that a place is of, and what it found there.
struct Recognised {
  const Format* format = nullptr;
  Found found;
};
/// The first format that recognises a place; nothing if none does. Throws: io.
std::optional<Recognised> recognise(const StorePath& path);

/// Opens a checkpoint of whatever format recognises the place; what none does is opened as a
/// HuggingFace directory, which says what is missing there. Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_checkpoint(const StorePath& path, const Choice& choice = {});

/// Opens what convert and link read: a place whose arrays are plain pieces, whatever else lies
/// there (an index over them, for one). Throws: unsupported (a checkpoint of another format), as
/// Format::open_one.
std::unique_ptr<Checkpoint> open_source(const StorePath& location, const Choice& choice = {});
/// Whether a place has the files of a model, whatever else lies there. Throws: io.
bool is_model_place(const StorePath& location);
/// The format of a tree of arrays: of those that recognise the place, the first whose arrays are
/// not plain pieces; null if none is. Throws: unsupported (a place that is not read), io.
const Format* tree_format(const StorePath& location);
/// Opens it; nothing if there is none. Throws: as Format::open_one.
std::unique_ptr<Checkpoint> open_tree(const StorePath& location, const Choice& choice = {});
/// What lies beside the tree that open_tree opens, for a copy by the format of that name. Throws:
/// usage (the tree is of another format), as Format::beside.
Beside beside_tree(const StorePath& location, const Choice& choice, std::string_view target);
/// Names of what goes along with a model beside its tensors: config, tokenizer, ... of a directory.
std::vector<std::string> model_side_files(const StorePath& directory);
/// What it consists of.
Catalog open_catalog(const StorePath& location);
/// Of a place that has the metadata of such a checkpoint and none of its data. Throws: bad_input,
/// io.
std::optional<NameList> open_names(const StorePath& location);

}  // namespace hfshard
