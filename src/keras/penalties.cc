#include "keras/penalties.h"

#include <ATen/TensorOperators.h>

namespace strata::keras::detail {

at::Tensor penalties_of(const std::vector<Weight>& weights) {
  at::Tensor sum;
  for (const Weight& weight : weights) {
    if (!weight.regularizer || !weight.trainable) continue;
    const at::Tensor penalty = weight.regularizer(weight.variable.value());
    sum = sum.defined() ? sum + penalty : penalty;
  }
  return sum;
}

}  // namespace strata::keras::detail
