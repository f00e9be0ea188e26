#include "strata/keras/callback.h"

#include "strata/core/error.h"

namespace strata::callbacks {

keras::TrainingRun& Callback::run() const {
  STRATA_CHECK(run_ != nullptr, kFailedPrecondition,
               "[callbacks] run: this callback is not part of a run; hand it to fit, evaluate or "
               "predict");
  return *run_;
}

}  // namespace strata::callbacks
