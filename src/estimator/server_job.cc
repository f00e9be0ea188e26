#include "estimator/server_job.h"

#include <ATen/ops/zeros.h>

#include "optim/step/shipped_update.h"
#include "strata/core/error.h"
#include "strata/strategies/strategy.h"
#include "strata/tensor/rule_options.h"

namespace strata::estimator::detail {

ServerJob::ServerJob(const ModelStore& model, ParameterStore& store)
    : model_(model),
      store_(store),
      is_chief_(model.strategy().is_chief()),
      state_(at::zeros({2}, at::kDouble)) {
  STRATA_CHECK(!model.optimizers().empty(), kInvalidArgument,
               "[estimator] train: got a model_fn without an optimizer, and parameter servers, "
               "which count its updates as steps; ask for one by ModelContext::optimizer");
  state_table_ = make_table("estimator/state", state_);
  restores_ = is_chief_ && state_[0].item<double>() == 0;
}

std::unique_ptr<ParameterStore::Table> ServerJob::make_table(const char* name,
                                                             const at::Tensor& values) {
  return store_.make_table(tensor::SGDRule(),
                           {{.name = name, .shape = values.sizes().vec(), .begin = 0}}, values);
}

void ServerJob::begin(int64_t global_step) {
  if (restores_) {
    for (const auto& [name, optimizer] : model_.optimizers()) {
      optimizers::shipped_update_of(*optimizer).flush_shipped();
    }
    state_[0] = 1;
    state_[1] = static_cast<double>(global_step - model_.optimizers().front().second->iterations());
    state_table_->write(state_, 0);
  }
  begun_ = make_table("estimator/begun", at::zeros({1}, at::kDouble));
  state_table_->read(state_);
  for (const auto& [name, optimizer] : model_.optimizers()) {
    optimizers::shipped_update_of(*optimizer).fetch_shipped();
  }
}

int64_t ServerJob::global_step() const {
  return static_cast<int64_t>(state_[1].item<double>()) +
         model_.optimizers().front().second->iterations();
}

}  // namespace strata::estimator::detail
