#pragma once

#include "catalog/format.h"
#include "plan/plan.h"
#include "run/engine/data_files.h"

namespace hfshard {

/// Returns a function that streams the front of each data file of a plan. Borrows both.
DataFiles::Leading leading_of(const Plan& plan, const Format& target);

/// Makes the data files of arrays without elements durable, since no unit opens them. Throws: io.
void make_empty_files(const Plan& plan, DataFiles& files);

}  // namespace hfshard
