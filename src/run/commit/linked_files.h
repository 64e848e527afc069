#pragma once

#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "plan/plan.h"

#include "hfshard/convert.h"
#include "hfshard/error.h"

namespace hfshard {

/// Name, in the step directory, of what was linked: size and time of each file. It is the one file
/// of an output that holds a time: that of the source's file whose bytes are meant.
inline constexpr const char* kLinksName = "hfshard.links.json";

/// The result of link_shards.
struct LinkedShards {
  std::vector<AwaitedFile> awaited;  ///< files that are to be fetched
  /// Files that are there, as they are now. Their own new links don't explain later changes.
  std::vector<CatalogFile> files;
};
/// Makes the names of the source's files below the item directory, as the plan has them, and the
/// record of what they were. Names of files that are to be fetched lead to where they will be.
/// Throws: unsupported (the file system has no such links), conflict (a file changed), io.
LinkedShards link_shards(const Plan& plan, const std::string& step, const std::string& item,
                         ShardLinks how);
/// Whether link_shards will find something to link to. Throws: unsupported.
void check_linkable(const Plan& plan, ShardLinks how);

/// A linked file of a step.
struct LinkedFile {
  std::string file;
  std::string fault;  ///< why it isn't what was linked, by size and time; or empty
  bool is_there = false;
  std::string header_sha256;  ///< hex, of its header when it was linked; empty if unknown
};
/// Returns the linked files of a step, by their record. Empty without a record. Throws: corrupt
/// (the record), io.
std::vector<LinkedFile> linked_files(const std::string& step);

/// A step, as it is read when the files that it awaits have come: they are found already.
StorePath as_fetched(const std::string& step);
/// Says, of an error that a step cannot be opened, which files it awaits, if any.
Error explained(Error error, const std::string& step);

/// The path to link to. Throws: unsupported (the file is not of this machine).
std::string linkable_path(const StorePath& file);
/// Gives `to` the bytes of `from` as a second name, by the first kind that the file system has.
/// Throws: unsupported, io.
void give_name(const std::string& from, const std::string& to, ShardLinks how);

}  // namespace hfshard
