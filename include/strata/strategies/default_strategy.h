#pragma once

#include "strata/core/export.h"
#include "strata/strategies/strategy.h"

namespace strata {

/// The strategy of a program that chose none: one replica, on the CPU, on the caller's thread.
/// Outside every scope a thread is in this strategy's replica context, so optimizers and losses
/// work there unchanged.
class STRATA_API DefaultStrategy : public Strategy {
 private:
  DefaultStrategy();
  friend STRATA_API DefaultStrategy& default_strategy();
};

STRATA_API DefaultStrategy& default_strategy();

}  // namespace strata
