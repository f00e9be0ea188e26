#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layer.h"

/// Loops and choices over tensors. The functions that they take run in the calling thread; gradients
/// pass through what was computed. Nodes of a graph cannot hold functions.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

/// @param pred  One boolean.
STRATA_API Tensors cond(const at::Tensor& pred, const std::function<Tensors()>& true_fn,
                        const std::function<Tensors()>& false_fn);
/// @param index  The branch's number; outside of those that there are, the nearest.
STRATA_API Tensors switch_(const at::Tensor& index,
                           const std::vector<std::function<Tensors(const Tensors&)>>& branches,
                           const Tensors& operands = {});
STRATA_API Tensors while_loop(const std::function<at::Tensor(const Tensors&)>& cond,
                              const std::function<Tensors(const Tensors&)>& body, Tensors loop_vars,
                              std::optional<int64_t> maximum_iterations = {});
STRATA_API Tensors fori_loop(int64_t lower, int64_t upper,
                             const std::function<Tensors(int64_t, const Tensors&)>& body_fun,
                             Tensors init_val);
/// `f` of each element of the first dimension, stacked.
STRATA_API at::Tensor map(const std::function<at::Tensor(const at::Tensor&)>& f,
                          const at::Tensor& xs);
/// The same.
STRATA_API at::Tensor vectorized_map(const std::function<at::Tensor(const at::Tensor&)>& function,
                                     const at::Tensor& elements);
/// Hands a state from element to element. @return The last state, and the outputs, stacked.
using ScanFunction =
    std::function<std::pair<at::Tensor, at::Tensor>(const at::Tensor& state, const at::Tensor& x)>;
STRATA_API std::pair<at::Tensor, at::Tensor> scan(const ScanFunction& f, const at::Tensor& init,
                                                  const at::Tensor& xs, bool reverse = false);
/// f(f(x0, x1), x2)...: all partial results along `axis`.
STRATA_API at::Tensor associative_scan(
    const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& f,
    const at::Tensor& elems, bool reverse = false, int64_t axis = 0);

}  // namespace strata::keras::ops
