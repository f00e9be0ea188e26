#pragma once

#include "keras/training/fit_loop.h"

namespace strata::keras::detail {

/// Puts the progress bar (verbose 1) or the line an epoch (2) in front, unless there is one.
void add_default_callbacks(Callbacks& callbacks, int verbose);

}  // namespace strata::keras::detail
