#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "strata/keras/layer_impl.h"

namespace strata::test {

/// Values between -1 and 1 that differ from element to element.
inline at::Tensor waves(int64_t rows, int64_t columns, double frequency) {
  return (at::arange(rows * columns, at::kFloat) * frequency).sin().reshape({rows, columns});
}

/// Adds the mean square of its input, over examples, to the losses.
class PenaltyImpl final : public keras::UnaryLayerImpl {
 public:
  std::string_view class_name() const override { return "Penalty"; }

 private:
  void describe(keras::ConfigWriter&) const override {}
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    if (x.size(0) > 0) add_loss(x.square().sum(-1).mean() * 0.1);
    return x;
  }
};

}  // namespace strata::test
