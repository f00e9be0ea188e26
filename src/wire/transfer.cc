#include "wire/transfer.h"

namespace strata::wire {

Status Transfer::status() const {
  STRATA_CHECK(done(), kFailedPrecondition, "[wire] status: the ", describe(),
               " is not done; wait for it first");
  return operation_ == nullptr ? Status() : operation_->status();
}

}  // namespace strata::wire
