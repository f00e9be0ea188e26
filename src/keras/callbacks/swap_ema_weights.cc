#include "strata/keras/callbacks/swap_ema_weights.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "keras/training/training_run.h"
#include "strata/optim/optimizer.h"

namespace strata::callbacks {
namespace {

/// The optimizer, if it has averages by now; else null.
optimizers::Optimizer* optimizer_of(const keras::TrainingRun& run) {
  const keras::CompileOptions* options = run.model().compiled();
  if (options == nullptr || !options->optimizer) return nullptr;
  optimizers::Optimizer& optimizer = *options->optimizer;
  STRATA_CHECK(optimizer.common_options().use_ema, kInvalidArgument,
               "[callbacks] SwapEMAWeights: got the optimizer ", optimizer.name(),
               ", which keeps no averages; make it with .use_ema = true");
  return optimizer.iterations() == 0 ? nullptr : &optimizer;
}

/// Calls `work(variable, index of its average among the slots, the average)` for all variables.
template <typename Work>
void for_each_average(optimizers::Optimizer& optimizer, const Work& work) {
  const at::NoGradGuard no_grad;
  const auto slots = optimizer.slots();
  const std::vector<Variable>& variables = optimizer.variables();
  size_t first = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    const std::vector<std::string> names = optimizer.slot_names(v);
    const auto place = std::ranges::find(names, "average") - names.begin();
    const size_t index = first + static_cast<size_t>(place);
    work(Variable(variables[v]), index, slots.at(index).second);
    first += names.size();
  }
}

void swap(optimizers::Optimizer& optimizer) {
  for_each_average(optimizer, [&](Variable variable, size_t index, const at::Tensor& average) {
    const at::Tensor weights = variable.value().detach().clone();
    variable.assign(average.clone());  // the slot itself is written next
    optimizer.set_slot(index, weights);
  });
}

}  // namespace

void SwapEMAWeights::show_averages(bool shown) {
  if (shown == shown_) return;
  optimizers::Optimizer* const optimizer = optimizer_of(run());
  if (optimizer == nullptr) return;
  swap(*optimizer);
  shown_ = shown;
}

void SwapEMAWeights::on_epoch_begin(int64_t) {
  if (swap_on_epoch_) show_averages(false);
}

void SwapEMAWeights::on_epoch_end(int64_t epoch, keras::Logs&) {
  if (!swap_on_epoch_) return;
  show_averages(true);
  // At its end `fit` gives the weights the averages, which are not with the optimizer now.
  const bool is_last = epoch == run().epochs() - 1 || run().stopping();
  if (!shown_ || !is_last) return;
  optimizers::Optimizer& optimizer = *optimizer_of(run());
  for_each_average(optimizer, [&](const Variable& variable, size_t index, const at::Tensor&) {
    optimizer.set_slot(index, variable.value().detach());
  });
  shown_ = false;  // both have them
}

std::vector<std::pair<std::string, Tracked>> SwapEMAWeights::state() { return {{"shown", shown_}}; }

}  // namespace strata::callbacks
