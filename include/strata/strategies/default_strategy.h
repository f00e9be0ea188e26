#pragma once

#include "strata/core/export.h"
#include "strata/strategies/strategy.h"

namespace strata {

/// What a program runs under that chose no strategy: one replica, on the CPU, on the caller's
/// thread. Outside every scope a thread is in this strategy's replica context, so optimizers and
/// losses work there as they are.
class STRATA_API DefaultStrategy : public Strategy {
 private:
  DefaultStrategy();
  friend STRATA_API DefaultStrategy& default_strategy();
};

STRATA_API DefaultStrategy& default_strategy();

}  // namespace strata
