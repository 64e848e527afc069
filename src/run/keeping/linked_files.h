#pragma once

#include <string>
#include <vector>

#include "bytes/store.h"
#include "plan/plan.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Name, in the step directory, of what was linked: size and time of each file. It is the one file
/// of an output that holds a time: that of the source's file whose bytes are meant.
inline constexpr const char* kLinksName = "hfshard.links.json";

/// Makes the names of the source's files below the item directory, as the plan has them, and the
/// record of what they were. Throws: unsupported (the file system has no such links), io.
void link_shards(const Plan& plan, const std::string& step, const std::string& item,
                 ShardLinks how);

/// A linked file that is not what was linked.
struct LinkFinding {
  std::string file;
  std::string what;
};
/// Compares the linked files of a step with their record, by size and time. Empty if the step has
/// no record. Throws: corrupt (the record), io.
std::vector<LinkFinding> check_links(const std::string& step);

/// The path to link to. Throws: unsupported (the file is not of this machine).
std::string linkable_path(const StorePath& file);
/// Gives `to` the bytes of `from` as a second name, by the first kind that the file system has.
/// Throws: unsupported, io.
void give_name(const std::string& from, const std::string& to, ShardLinks how);

}  // namespace hfshard
