#pragma once

#include "bytes/hub_name.h"
#include "bytes/store.h"
#include "service/bring.h"

#include "hfshard/hub.h"

namespace hfshard {

/// Finds what a source's name means: a path that is there, else a model of the hub or of its cache.
/// Of what is neither it says nothing: that shows when it is opened. Throws: usage (a revision of
/// what has none), not_found, network. `bringing` is of SourceName::keep_files.
StorePath find_place(const SourceName& source, const BringOptions& bringing = {});

/// The model of the hub that a source's name means, with its revision (empty: none is said), for
/// commands that take nothing else. Throws: usage.
HubName hub_name_of(const SourceName& source);

}  // namespace hfshard
