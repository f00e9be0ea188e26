#include "optim/losses/batch_rows.h"

#include <utility>

#include "runtime/context.h"
#include "strata/core/str_cat.h"
#include "strata/runtime/replica_context.h"

namespace strata::losses {
namespace {

BatchRows& batch_rows() {
  thread_local BatchRows rows;
  return rows;
}

}  // namespace

BatchRowsGuard::BatchRowsGuard(const BatchRows& rows) : outer_(std::exchange(batch_rows(), rows)) {}
BatchRowsGuard::~BatchRowsGuard() { batch_rows() = outer_; }

std::string row_in_batch(int64_t row, int64_t rows) {
  const BatchRows& known = batch_rows();
  // A step of the user's may have made other rows of the part.
  if (known.count == rows) {
    return str_cat("row ", known.first + row,
                   known.worker < 0 ? std::string()
                                    : str_cat(" of worker ", known.worker, "'s part of the batch"));
  }
  const strata::detail::Context& context = strata::detail::current_context();
  if (context.replica == nullptr || context.replica->num_replicas_in_sync() == 1) {
    return str_cat("row ", row);
  }
  return str_cat("row ", row, " of replica ", context.replica->replica_id_in_sync_group(),
                 "'s part of the batch");
}

}  // namespace strata::losses
