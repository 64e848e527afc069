#pragma once

#include "bytes/hub/hub_name.h"
#include "bytes/store/store.h"
#include "service/bring.h"

#include "hfshard/hub.h"

namespace hfshard {

/// Finds the meaning of a source's name: an existing path, or else a model of the Hub or its cache.
/// Other names stay; opening them reports the error. `bringing` is for SourceName::keep_files.
/// Throws: usage (a revision without a Hub model), not_found, network.
StorePath find_place(const SourceName& source, const BringOptions& bringing = {});

/// Returns the Hub model that a source's name means, with its revision (empty: not given), for
/// commands that take only Hub models. Throws: usage.
HubName hub_name_of(const SourceName& source);

}  // namespace hfshard
