#include "runtime/context.h"
#include "strata/strategies/strategy.h"

namespace strata {

DefaultStrategy::DefaultStrategy() : Strategy(detail::default_group()) {}

DefaultStrategy& default_strategy() {
  static DefaultStrategy strategy;
  return strategy;
}

}  // namespace strata
