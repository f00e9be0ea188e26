#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "estimator/model_store.h"
#include "runtime/parameter_store.h"
#include "strata/optim/optimizer.h"

namespace strata::estimator::detail {

/// How the workers of a job with parameter servers begin to train, each in steps of its own, and
/// how they count these steps.
///
/// The chief brings a checkpoint's values to the servers before any worker makes a step: otherwise
/// they would be written over what workers have pushed. Two small tables on the servers see to it.
/// The first says whether the values are there: it is written behind them, so that a chief that is
/// started again restores if the one before it was lost on the way, and else leaves the servers as
/// they are, where the others train meanwhile. The second is made by the chief afterwards; the
/// other workers wait for it when they make it, as they do for any table, and for no longer than the
/// strategy's timeout. No worker waits for any but the chief.
///
/// Each of the two has a part on every server. So where one server of several was lost and started
/// again, the chief finds the first table new, with zeros, and restores all servers, and the other
/// workers wait for the second one on the new server.
///
/// The global step is the number of updates of the model's first optimizer on the servers, by all
/// workers, plus the difference of the two in the checkpoint.
class ServerJob {
 public:
  /// All workers make it behind the model, whose tables are the first.
  /// @throws Error kInvalidArgument: the model has no optimizer.
  ServerJob(const ModelStore& model, ParameterStore& store);

  /// Whether this process is the chief and the values of the checkpoint are not on the servers.
  bool restores() const { return restores_; }
  /// Behind the restoring: the chief lets the others begin, which wait for it here. Afterwards
  /// variables have the servers' values.
  /// @param global_step  Of the restored checkpoint. Ignored where this process does not restore.
  void begin(int64_t global_step);
  /// As this process knows it from its last step.
  int64_t global_step() const;

 private:
  std::unique_ptr<ParameterStore::Table> make_table(const char* name, const at::Tensor& values);

  const ModelStore& model_;
  ParameterStore& store_;
  const bool is_chief_;
  at::Tensor state_;  // `[servers * 8]`, float64: 1 when the values are there; the difference; 0s
  std::unique_ptr<ParameterStore::Table> state_table_;
  std::unique_ptr<ParameterStore::Table> begun_;
  bool restores_ = false;
};

}  // namespace strata::estimator::detail
