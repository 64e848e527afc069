#include "format/dcp/replicas.h"

#include <optional>
#include <set>

#include "base/text.h"

namespace hfshard::format::dcp {
namespace {

// Returns whether two parts have the same elements, as far as their archives tell. The CRC of a
// compressed item follows its elements, so it isn't known here.
std::optional<bool> are_equal(const Items& items, const Replica& replica) {
  if (replica.kept.place.zstd || replica.other.place.zstd) return std::nullopt;
  try {
    const Payload kept = items.find(replica.tensor, replica.kept);
    const Payload other = items.find(replica.tensor, replica.other);
    const bool comparable = kept.has_crc && other.has_crc && kept.size_bytes == other.size_bytes &&
                            kept.offset_units == other.offset_units &&
                            kept.strides == other.strides;
    return comparable ? std::optional(kept.crc == other.crc) : std::nullopt;
  } catch (const Error& error) {  // a damaged part; if it's the one that is read, reading says so
    if (error.code() == ErrorCode::io || error.code() == ErrorCode::internal) throw;
    return std::nullopt;
  }
}

void note(const char* what, const std::set<std::string>& names, std::vector<std::string>& notes) {
  if (!names.empty()) notes.push_back(what + quoted_list({names.begin(), names.end()}));
}

}  // namespace

void name_replicas(const Items& items, const Metadata& metadata, std::vector<std::string>& notes) {
  std::set<std::string> differing;
  std::set<std::string> unknown;
  for (const Replica& replica : metadata.replicas) {
    const std::string& name = replica.tensor.name;
    if (differing.contains(name)) continue;
    const auto equal = are_equal(items, replica);
    if (equal == false) differing.insert(name);
    if (!equal) unknown.insert(name);
  }
  for (const std::string& name : differing) unknown.erase(name);
  note("ranks stored different values under one name; hfshard reads only the first rank's: ",
       differing, notes);
  note(
      "several ranks stored the same part, which hfshard reads from the first one and can't "
      "compare: ",
      unknown, notes);
}

}  // namespace hfshard::format::dcp
