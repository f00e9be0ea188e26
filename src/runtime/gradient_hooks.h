#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace strata::detail {

/// How the gradients of a step are to be divided.
struct GradientShare {
  double scale = 1;   ///< They are multiplied by it.
  double weight = 0;  ///< As MinimizeOptions::weight.
};

/// A leaf that is no variable's, such as rows of a table on parameter servers, and who gets its
/// gradient.
struct GradientHook {
  at::Tensor leaf;
  std::function<void(const at::Tensor& gradient, const GradientShare& share)> take;
};

/// The next `minimize` of this thread takes the gradient of `tap.leaf`, too, and calls `tap.take`
/// unless its loss does not depend on the leaf.
/// @param run  ReplicaGroup::step: those of an earlier run, which ended in an error, are dropped.
void add_gradient_hook(GradientHook tap, uint64_t run);

/// For optimizers: those of this thread that were not taken. They are removed.
std::vector<GradientHook> take_gradient_hooks();

}  // namespace strata::detail
