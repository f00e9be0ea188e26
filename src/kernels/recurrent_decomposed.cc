#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "kernels/recurrent_operators.h"

namespace strata::kernels::decomposed {
namespace {

/// The rows of one step.
class Step {
 public:
  Step(const OptionalTensor& rows, int64_t first, int64_t size) : first_(first), size_(size) {
    if (rows) rows_ = rows->narrow(0, first, size);
  }

  /// Those of a tensor of all steps' rows.
  at::Tensor of_rows(const at::Tensor& all) const { return all.narrow(0, first_, size_); }
  /// The same, where others begin with the batch.
  at::Tensor of_states(const at::Tensor& all, int64_t batch) const {
    return all.narrow(0, batch + first_, size_);
  }
  /// Of a tensor of the batch.
  at::Tensor take(const at::Tensor& batch) const {
    if (rows_.defined()) return batch.index_select(0, rows_);
    return size_ == batch.size(0) ? batch : batch.narrow(0, 0, size_);
  }
  at::Tensor put(const at::Tensor& batch, const at::Tensor& value) const {
    if (rows_.defined()) return batch.index_copy(0, rows_, value);
    if (size_ == batch.size(0)) return value;
    return at::cat({value, batch.narrow(0, size_, batch.size(0) - size_)});
  }

 private:
  at::Tensor rows_;
  int64_t first_;
  int64_t size_;
};

std::vector<Step> steps_of(const OptionalTensor& rows, at::IntArrayRef sizes) {
  std::vector<Step> steps;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    if (size > 0) steps.emplace_back(rows, first, size);
    first += size;
  }
  return steps;
}

/// What each row found as its state, and the matrix of them.
std::vector<at::Tensor> states_before(const at::Tensor& states, int64_t batch,
                                      const std::vector<Step>& steps) {
  at::Tensor now = states.narrow(0, 0, batch);
  std::vector<at::Tensor> before;
  for (const Step& step : steps) {
    before.push_back(step.take(now));
    now = step.put(now, step.of_states(states, batch));
  }
  return before;
}

at::Tensor joined(std::vector<at::Tensor> parts, const at::Tensor& none) {
  return parts.empty() ? none : at::cat(parts);
}

at::Tensor sums_of_inputs(const at::Tensor& x, const at::Tensor& kernel,
                          const OptionalTensor& bias) {
  return bias ? at::addmm(*bias, x, kernel) : at::mm(x, kernel);
}

at::Tensor or_zeros(const OptionalTensor& gradient, const at::Tensor& like, int64_t batch) {
  return gradient ? *gradient : at::zeros({batch, like.size(1)}, like.options());
}

at::Tensor through_sigmoid(const at::Tensor& gradient, const at::Tensor& y) {
  return gradient * y * (1 - y);
}
at::Tensor through_tanh(const at::Tensor& gradient, const at::Tensor& y) {
  return gradient * (1 - y * y);
}

}  // namespace

Tensors5 lstm(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
              const at::Tensor& kernel, const at::Tensor& recurrent, const OptionalTensor& bias,
              const OptionalTensor& rows, at::IntArrayRef sizes, const OptionalTensor&) {
  const at::Tensor sums = sums_of_inputs(x, kernel, bias);
  std::vector<at::Tensor> states{h}, cells{c}, gates;
  at::Tensor h_now = h, c_now = c;
  for (const Step& step : steps_of(rows, sizes)) {
    const auto parts = at::addmm(step.of_rows(sums), step.take(h_now), recurrent).chunk(4, 1);
    const at::Tensor i = parts[0].sigmoid();
    const at::Tensor f = parts[1].sigmoid();
    const at::Tensor g = parts[2].tanh();
    const at::Tensor o = parts[3].sigmoid();
    cells.push_back(f * step.take(c_now) + i * g);
    states.push_back(o * cells.back().tanh());
    gates.push_back(at::cat({i, f, g, o}, 1));
    h_now = step.put(h_now, states.back());
    c_now = step.put(c_now, cells.back());
  }
  return {at::cat(states), at::cat(cells), joined(gates, sums), h_now.clone(), c_now.clone()};
}

Tensors4 lstm_backward(const OptionalTensor& dy, const OptionalTensor& dh, const OptionalTensor& dc,
                       const at::Tensor& states, const at::Tensor& cells, const at::Tensor& gates,
                       const at::Tensor& recurrent, const OptionalTensor& rows,
                       at::IntArrayRef sizes, bool) {
  const int64_t batch = states.size(0) - gates.size(0);
  const std::vector<Step> steps = steps_of(rows, sizes);
  const std::vector<at::Tensor> h_before = states_before(states, batch, steps);
  const std::vector<at::Tensor> c_before = states_before(cells, batch, steps);
  at::Tensor dh_now = or_zeros(dh, states, batch);
  at::Tensor dc_now = or_zeros(dc, states, batch);
  std::vector<at::Tensor> dgates;
  for (size_t t = steps.size(); t-- > 0;) {
    const Step& step = steps[t];
    const auto gate = step.of_rows(gates).chunk(4, 1);
    at::Tensor dh_here = step.take(dh_now);
    if (dy) dh_here = dh_here + step.of_rows(*dy);
    const at::Tensor tanh_c = step.of_states(cells, batch).tanh();
    const at::Tensor dc_here = step.take(dc_now) + through_tanh(dh_here * gate[3], tanh_c);
    dgates.push_back(at::cat(
        {through_sigmoid(dc_here * gate[2], gate[0]),
         through_sigmoid(dc_here * c_before[t], gate[1]), through_tanh(dc_here * gate[0], gate[2]),
         through_sigmoid(dh_here * tanh_c, gate[3])},
        1));
    dh_now = step.put(dh_now, at::mm(dgates.back(), recurrent.t()));
    dc_now = step.put(dc_now, dc_here * gate[1]);
  }
  std::reverse(dgates.begin(), dgates.end());
  const at::Tensor all = joined(dgates, gates);
  const at::Tensor before = joined(h_before, states.narrow(0, 0, 0));
  return {all, dh_now.clone(), dc_now.clone(), at::mm(before.t(), all)};
}

Tensors4 gru(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
             const at::Tensor& recurrent, const OptionalTensor& bias,
             const OptionalTensor& recurrent_bias, const OptionalTensor& rows,
             at::IntArrayRef sizes, bool reset_first, const OptionalTensor&) {
  const at::Tensor sums = sums_of_inputs(x, kernel, bias);
  std::vector<at::Tensor> states{h}, gates, inner;
  at::Tensor h_now = h;
  for (const Step& step : steps_of(rows, sizes)) {
    const at::Tensor before = step.take(h_now);
    const auto of_input = step.of_rows(sums).chunk(3, 1);
    const auto of_state = sums_of_inputs(before, recurrent, recurrent_bias).chunk(3, 1);
    const at::Tensor first = (of_input[0] + of_state[0]).sigmoid();
    const at::Tensor second = (of_input[1] + of_state[1]).sigmoid();
    const at::Tensor& z = reset_first ? second : first;
    const at::Tensor& r = reset_first ? first : second;
    const at::Tensor candidate = (of_input[2] + r * of_state[2]).tanh();
    states.push_back(z * before + (1 - z) * candidate);
    gates.push_back(at::cat({first, second, candidate}, 1));
    inner.push_back(of_state[2]);
    h_now = step.put(h_now, states.back());
  }
  return {at::cat(states), joined(gates, sums), joined(inner, h.narrow(0, 0, 0)), h_now.clone()};
}

Tensors4 gru_backward(const OptionalTensor& dy, const OptionalTensor& dh, const at::Tensor& states,
                      const at::Tensor& gates, const at::Tensor& inner, const at::Tensor& recurrent,
                      const OptionalTensor& rows, at::IntArrayRef sizes, bool reset_first, bool) {
  const int64_t batch = states.size(0) - gates.size(0);
  const std::vector<Step> steps = steps_of(rows, sizes);
  const std::vector<at::Tensor> before = states_before(states, batch, steps);
  at::Tensor dh_now = or_zeros(dh, states, batch);
  std::vector<at::Tensor> dinputs, dstates;
  for (size_t t = steps.size(); t-- > 0;) {
    const Step& step = steps[t];
    const auto gate = step.of_rows(gates).chunk(3, 1);
    const at::Tensor& z = gate[reset_first ? 1 : 0];
    const at::Tensor& r = gate[reset_first ? 0 : 1];
    at::Tensor dh_here = step.take(dh_now);
    if (dy) dh_here = dh_here + step.of_rows(*dy);
    const at::Tensor dz = through_sigmoid(dh_here * (before[t] - gate[2]), z);
    const at::Tensor dcandidate = through_tanh(dh_here * (1 - z), gate[2]);
    const at::Tensor dr = through_sigmoid(dcandidate * step.of_rows(inner), r);
    const at::Tensor& first = reset_first ? dr : dz;
    const at::Tensor& second = reset_first ? dz : dr;
    dinputs.push_back(at::cat({first, second, dcandidate}, 1));
    dstates.push_back(at::cat({first, second, dcandidate * r}, 1));
    dh_now = step.put(dh_now, at::addmm(dh_here * z, dstates.back(), recurrent.t()));
  }
  std::reverse(dinputs.begin(), dinputs.end());
  std::reverse(dstates.begin(), dstates.end());
  const at::Tensor of_states = joined(dstates, gates);
  const at::Tensor h_before = joined(before, states.narrow(0, 0, 0));
  return {joined(dinputs, gates), dh_now.clone(), at::mm(h_before.t(), of_states),
          of_states.sum(0)};
}

}  // namespace strata::kernels::decomposed
