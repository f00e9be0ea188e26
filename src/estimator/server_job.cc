#include "estimator/server_job.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "optim/step/shipped_update.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/strategies/strategy.h"
#include "strata/tensor/rule_options.h"

namespace strata::estimator::detail {
namespace {

/// Elements: 64 bytes, at multiples of which placement cuts what lies in one range.
constexpr int64_t kPartOfServer = 8;

}  // namespace

ServerJob::ServerJob(const ModelStore& model, ParameterStore& store)
    : model_(model),
      store_(store),
      is_chief_(model.strategy().is_chief()),
      state_(at::zeros({store.num_servers() * kPartOfServer}, at::kDouble)) {
  STRATA_CHECK(!model.optimizers().empty(), kInvalidArgument,
               "[estimator] train: got a model_fn without an optimizer, and parameter servers, "
               "which count its updates as steps; ask for one by ModelContext::optimizer");
  state_table_ = make_table("estimator/state", state_);
  restores_ = is_chief_ && state_[0].item<double>() == 0;
}

std::unique_ptr<ParameterStore::Table> ServerJob::make_table(const char* name,
                                                             const at::Tensor& values) {
  std::vector<ParameterStore::Entry> parts;
  for (int server = 0; server < store_.num_servers(); ++server) {
    parts.push_back({.name = str_cat(name, '/', server),
                     .shape = {kPartOfServer},
                     .begin = server * kPartOfServer});
  }
  return store_.make_table(tensor::SGDRule(), parts, values);
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
  begun_ = make_table("estimator/begun", at::zeros_like(state_));
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
