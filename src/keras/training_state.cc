#include "keras/training_state.h"

namespace strata::keras::detail {

TrainingState training_state(const Model&) { return {}; }

void restore_training(const Model&, const Json&, const std::vector<at::Tensor>&) {}

std::optional<OptimizerSize> optimizer_size(const Model&) { return {}; }

}  // namespace strata::keras::detail
