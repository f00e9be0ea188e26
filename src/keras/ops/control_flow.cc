#include "strata/keras/ops/control_flow.h"

#include <ATen/ops/stack.h>

#include <algorithm>

#include "strata/core/error.h"

namespace strata::keras::ops {

Tensors cond(const at::Tensor& pred, const std::function<Tensors()>& true_fn,
             const std::function<Tensors()>& false_fn) {
  return pred.item<bool>() ? true_fn() : false_fn();
}

Tensors switch_(const at::Tensor& index,
                const std::vector<std::function<Tensors(const Tensors&)>>& branches,
                const Tensors& operands) {
  STRATA_CHECK(!branches.empty(), kInvalidArgument,
               "[keras] ops::switch_: got no branches; expected one or more");
  const auto last = static_cast<int64_t>(branches.size()) - 1;
  return branches[static_cast<size_t>(std::clamp<int64_t>(index.item<int64_t>(), 0, last))](
      operands);
}

Tensors while_loop(const std::function<at::Tensor(const Tensors&)>& cond,
                   const std::function<Tensors(const Tensors&)>& body, Tensors loop_vars,
                   std::optional<int64_t> maximum_iterations) {
  for (int64_t i = 0; !maximum_iterations || i < *maximum_iterations; ++i) {
    if (!cond(loop_vars).item<bool>()) break;
    loop_vars = body(loop_vars);
  }
  return loop_vars;
}

Tensors fori_loop(int64_t lower, int64_t upper,
                  const std::function<Tensors(int64_t, const Tensors&)>& body_fun,
                  Tensors init_val) {
  for (int64_t i = lower; i < upper; ++i) init_val = body_fun(i, init_val);
  return init_val;
}

at::Tensor map(const std::function<at::Tensor(const at::Tensor&)>& f, const at::Tensor& xs) {
  Tensors ys;
  for (const at::Tensor& x : xs.unbind(0)) ys.push_back(f(x));
  STRATA_CHECK(!ys.empty(), kInvalidArgument,
               "[keras] ops::map: got no elements; expected one or more");
  return at::stack(ys);
}

at::Tensor vectorized_map(const std::function<at::Tensor(const at::Tensor&)>& function,
                          const at::Tensor& elements) {
  return map(function, elements);
}

std::pair<at::Tensor, at::Tensor> scan(const ScanFunction& f, const at::Tensor& init,
                                       const at::Tensor& xs, bool reverse) {
  Tensors elements = xs.unbind(0), ys;
  STRATA_CHECK(!elements.empty(), kInvalidArgument,
               "[keras] ops::scan: got no elements; expected one or more");
  if (reverse) std::ranges::reverse(elements);
  at::Tensor state = init;
  for (const at::Tensor& x : elements) {
    auto [next, y] = f(state, x);
    state = std::move(next);
    ys.push_back(std::move(y));
  }
  if (reverse) std::ranges::reverse(ys);
  return {state, at::stack(ys)};
}

at::Tensor associative_scan(
    const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& f,
    const at::Tensor& elems, bool reverse, int64_t axis) {
  Tensors elements = elems.unbind(axis);
  if (reverse) std::ranges::reverse(elements);
  for (size_t i = 1; i < elements.size(); ++i) elements[i] = f(elements[i - 1], elements[i]);
  if (reverse) std::ranges::reverse(elements);
  return elements.empty() ? elems : at::stack(elements, axis);
}

}  // namespace strata::keras::ops
