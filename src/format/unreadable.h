#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"

#include "hfshard/error.h"

namespace hfshard::format {

/// Returns why an array can't be read, with the option that leaves it out.
Error with_way_out(Error why, std::string_view name);

/// Returns an array whose description isn't supported, for Catalog::unreadable, if one of the globs
/// (Choice::without) leaves it out. Throws: `why`, with the option that leaves it out if none does;
/// `why` as it is, if it isn't `unsupported`.
UnreadableArray accept_unreadable(const std::vector<std::string>& without, std::string_view name,
                                  Error why);

}  // namespace hfshard::format
