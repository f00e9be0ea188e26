#include "kernels/recurrent_operators.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/find_operator.h"
#include "kernels/kernel_threads.h"
#include "kernels/optional_tensor.h"
#include "kernels/products.h"
#include "kernels/recurrent_kernels.h"
#include "kernels/recurrent_words.h"
#include "kernels/scratch.h"
#include "strata/core/error.h"

namespace strata::kernels {

const RecurrentKernels& recurrent_kernels(CpuIsa isa) {
  return STRATA_KERNELS_FOR(isa, recurrent_kernels);
}

namespace {

using decomposed::Tensors4;
using decomposed::Tensors5;

const RecurrentKernels& chosen_kernels() {
  static const RecurrentKernels& kernels = recurrent_kernels(best_cpu_isa());
  return kernels;
}

void check(bool holds, const char* what) {
  STRATA_CHECK(holds, kInvalidArgument, "[recurrent] ", what);
}

/// RecurrentSteps and the memory behind it.
class Steps {
 public:
  Steps(const OptionalTensor& rows, at::IntArrayRef sizes, int64_t batch, int64_t total)
      : sizes_(sizes), batch_(batch), latest_(static_cast<size_t>(batch)) {
    if (rows) {
      rows_ = rows->contiguous();
      check(rows_.is_cpu() && rows_.scalar_type() == at::kLong && rows_.numel() == total,
            "rows: expected int64, as many as x has rows");
    }
    const int64_t* const of_batch = rows_.defined() ? rows_.const_data_ptr<int64_t>() : nullptr;
    previous_.reserve(static_cast<size_t>(total));
    for (int64_t b = 0; b < batch; ++b) latest_[static_cast<size_t>(b)] = b;
    int64_t row = 0;
    for (const int64_t size : sizes) {
      check(size >= 0 && size <= batch && size <= total - row,
            "sizes: expected at most the batch's rows at each step, in all as many as x has");
      for (int64_t i = 0; i < size; ++i, ++row) {
        const int64_t b = of_batch == nullptr ? i : of_batch[row];
        check(b >= 0 && b < batch, "rows: expected rows of the batch");
        previous_.push_back(latest_[static_cast<size_t>(b)]);
        latest_[static_cast<size_t>(b)] = batch + row;
      }
    }
    check(row == total, "sizes: expected as many rows as x has");
  }

  RecurrentSteps view() const {
    return {.batch = batch_,
            .count = static_cast<int64_t>(sizes_.size()),
            .sizes = sizes_.data(),
            .rows = rows_.defined() ? rows_.const_data_ptr<int64_t>() : nullptr,
            .previous = previous_.data()};
  }

  /// Of [batch + rows, units].
  at::Tensor last(const at::Tensor& states) const { return gathered(states, latest_); }
  at::Tensor before(const at::Tensor& states) const {
    for (size_t row = 0; row < previous_.size(); ++row) {
      if (previous_[row] != static_cast<int64_t>(row)) return gathered(states, previous_);
    }
    return states.narrow(0, 0, static_cast<int64_t>(previous_.size()));
  }

  /// Calls part(first row of the batch, end), on several threads if that is worth it.
  template <typename Part>
  void in_parts(int64_t multiplications_a_row, const Part& part) const {
    const int64_t total = static_cast<int64_t>(previous_.size());
    const int64_t work = std::max<int64_t>(1, total * multiplications_a_row / batch_);
    parallel_for(0, batch_, std::max<int64_t>(1, kPartMultiplications / work), part);
  }

 private:
  static at::Tensor gathered(const at::Tensor& states, const std::vector<int64_t>& places) {
    const int64_t units = states.size(1);
    at::Tensor result = empty_float({static_cast<int64_t>(places.size()), units});
    const float* const from = states.const_data_ptr<float>();
    float* to = result.mutable_data_ptr<float>();
    for (const int64_t place : places) {
      std::memcpy(to, from + place * units, static_cast<size_t>(units) * sizeof(float));
      to += units;
    }
    return result;
  }

  at::Tensor rows_;
  at::IntArrayRef sizes_;
  int64_t batch_;
  std::vector<int64_t> latest_;
  std::vector<int64_t> previous_;
};

RecurrentWeights weights_of(const at::Tensor& recurrent, std::initializer_list<int64_t> first) {
  RecurrentWeights weights{.data = recurrent.const_data_ptr<float>(),
                           .row_stride = recurrent.stride(0),
                           .column_stride = recurrent.stride(1),
                           .units = recurrent.size(0),
                           .gates = static_cast<int64_t>(first.size()),
                           .first = {}};
  std::copy(first.begin(), first.end(), weights.first);
  return weights;
}

/// Floats like the others of a call.
bool is_matrix(const at::Tensor& tensor, int64_t rows, int64_t columns) {
  return is_cpu_float(tensor) && tensor.dim() == 2 && tensor.size(0) == rows &&
         tensor.size(1) == columns;
}
void check_forward(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
                   const at::Tensor& recurrent, int64_t gates) {
  check(x.dim() == 2 && h.dim() == 2 && h.size(0) > 0 && h.size(1) > 0,
        "expected x [rows, in] and h [batch, units], not empty");
  const int64_t units = h.size(1);
  check(is_cpu_float(h) && is_matrix(kernel, x.size(1), gates * units) &&
            is_matrix(recurrent, units, gates * units),
        "expected float matrices kernel [in, gates * units] and recurrent [units, gates * units]");
}

/// The inputs' part of all gates' sums: a product for all steps, or for all words.
class GateSums {
 public:
  GateSums(const at::Tensor& x, const at::Tensor& kernel, const OptionalTensor& bias,
           const DistinctRows& distinct)
      : distinct_(distinct), rows_(x.size(0)) {
    const at::Tensor rows = distinct.worthwhile() ? distinct.gathered(x) : x;
    sums_ = (bias ? at::addmm(*bias, rows, kernel) : at::mm(rows, kernel)).contiguous();
  }

  InputSums view() const {
    return {sums_.const_data_ptr<float>(), distinct_.worthwhile() ? distinct_.places() : nullptr};
  }
  /// Memory for the gates: that of the sums if each row has its own.
  at::Tensor gates() const {
    return distinct_.worthwhile() ? empty_float({rows_, sums_.size(1)}) : sums_;
  }

 private:
  const DistinctRows& distinct_;
  int64_t rows_;
  at::Tensor sums_;
};

at::Tensor with_first(const at::Tensor& first, int64_t rows) {
  at::Tensor states = empty_float({first.size(0) + rows, first.size(1)});
  states.narrow(0, 0, first.size(0)).copy_(first);
  return states;
}

/// Of the last states, a copy to be written to.
at::Tensor state_gradient(const OptionalTensor& given, int64_t batch, int64_t units) {
  check(!given || is_matrix(*given, batch, units), "expected gradients of the last states");
  at::Tensor gradient = empty_float({batch, units});
  if (given) {
    gradient.copy_(*given);
  } else {
    gradient.zero_();
  }
  return gradient;
}

OptionalTensor row_gradients(const OptionalTensor& dy, int64_t rows, int64_t units) {
  if (!dy) return std::nullopt;
  check(is_matrix(*dy, rows, units), "expected a gradient of all steps' rows");
  return dy->contiguous();
}
/// Of saved tensors, which are contiguous.
void check_saved(const at::Tensor& states, const at::Tensor& gates, const at::Tensor& recurrent,
                 int64_t count) {
  check(states.dim() == 2 && gates.dim() == 2 && is_cpu_float(states) && states.is_contiguous() &&
            gates.is_contiguous() && states.size(0) > gates.size(0) &&
            is_matrix(gates, gates.size(0), count * states.size(1)) &&
            is_matrix(recurrent, states.size(1), count * states.size(1)),
        "expected what the forward pass gave");
}

Scratch packed_transposed(const at::Tensor& recurrent, std::initializer_list<int64_t> first) {
  const RecurrentWeights weights = weights_of(recurrent, first);
  Scratch packed(chosen_kernels().transposed_floats(weights));
  chosen_kernels().pack_transposed(weights, packed.data());
  return packed;
}
Scratch packed_forward(const at::Tensor& recurrent, std::initializer_list<int64_t> first) {
  const RecurrentWeights weights = weights_of(recurrent, first);
  Scratch packed(chosen_kernels().packed_floats(weights));
  chosen_kernels().pack(weights, packed.data());
  return packed;
}

Tensors5 lstm_cpu(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                  const at::Tensor& kernel, const at::Tensor& recurrent, const OptionalTensor& bias,
                  const OptionalTensor& rows, at::IntArrayRef sizes, const OptionalTensor& words) {
  if (!is_cpu_float(x)) return decomposed::lstm(x, h, c, kernel, recurrent, bias, rows, sizes);
  check_forward(x, h, kernel, recurrent, 4);
  const int64_t batch = h.size(0);
  const int64_t n = h.size(1);
  check(is_matrix(c, batch, n), "expected c of h's shape");
  const Steps steps(rows, sizes, batch, x.size(0));
  const DistinctRows distinct(words, x.size(0));
  const GateSums sums(x, kernel, bias, distinct);
  at::Tensor gates = sums.gates();
  at::Tensor states = with_first(h, x.size(0));
  at::Tensor cells = with_first(c, x.size(0));
  const Scratch packed = packed_forward(recurrent, {0, n, 2 * n, 3 * n});
  const LstmForward call{.steps = steps.view(),
                         .units = n,
                         .packed = packed.data(),
                         .inputs = sums.view(),
                         .gates = gates.mutable_data_ptr<float>(),
                         .states = states.mutable_data_ptr<float>(),
                         .cells = cells.mutable_data_ptr<float>()};
  steps.in_parts(4 * n * n, [&](int64_t begin, int64_t end) {
    chosen_kernels().lstm_forward(call, begin, end);
  });
  at::Tensor last_h = steps.last(states);
  at::Tensor last_c = steps.last(cells);
  return {std::move(states), std::move(cells), std::move(gates), std::move(last_h),
          std::move(last_c)};
}

Tensors4 lstm_backward_cpu(const OptionalTensor& dy, const OptionalTensor& dh,
                           const OptionalTensor& dc, const at::Tensor& states,
                           const at::Tensor& cells, const at::Tensor& gates,
                           const at::Tensor& recurrent, const OptionalTensor& rows,
                           at::IntArrayRef sizes, bool wants_first) {
  if (!is_cpu_float(states)) {
    return decomposed::lstm_backward(dy, dh, dc, states, cells, gates, recurrent, rows, sizes,
                                     wants_first);
  }
  check_saved(states, gates, recurrent, 4);
  const int64_t n = states.size(1);
  const int64_t total = gates.size(0);
  const int64_t batch = states.size(0) - total;
  check(is_matrix(cells, batch + total, n) && cells.is_contiguous(),
        "expected what the forward pass gave");
  const Steps steps(rows, sizes, batch, total);
  const OptionalTensor dy_rows = row_gradients(dy, total, n);
  at::Tensor dh_now = state_gradient(dh, batch, n);
  at::Tensor dc_now = state_gradient(dc, batch, n);
  at::Tensor dgates = empty_float({total, 4 * n});
  const Scratch packed = packed_transposed(recurrent, {0, n, 2 * n, 3 * n});
  const LstmBackward call{.steps = steps.view(),
                          .units = n,
                          .packed = packed.data(),
                          .gates = gates.const_data_ptr<float>(),
                          .cells = cells.const_data_ptr<float>(),
                          .dy = floats_or_null(dy_rows),
                          .dh = dh_now.mutable_data_ptr<float>(),
                          .dc = dc_now.mutable_data_ptr<float>(),
                          .dgates = dgates.mutable_data_ptr<float>(),
                          .wants_first = wants_first};
  steps.in_parts(4 * n * n, [&](int64_t begin, int64_t end) {
    chosen_kernels().lstm_backward(call, begin, end);
  });
  at::Tensor drecurrent = at::mm(steps.before(states).t(), dgates);
  return {std::move(dgates), std::move(dh_now), std::move(dc_now), std::move(drecurrent)};
}

Tensors4 gru_cpu(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
                 const at::Tensor& recurrent, const OptionalTensor& bias,
                 const OptionalTensor& recurrent_bias, const OptionalTensor& rows,
                 at::IntArrayRef sizes, bool reset_first, const OptionalTensor& words) {
  if (!is_cpu_float(x)) {
    return decomposed::gru(x, h, kernel, recurrent, bias, recurrent_bias, rows, sizes, reset_first);
  }
  check_forward(x, h, kernel, recurrent, 3);
  const int64_t n = h.size(1);
  check(!recurrent_bias || (is_cpu_float(*recurrent_bias) && recurrent_bias->numel() == 3 * n),
        "expected a recurrent bias [3 * units]");
  const Steps steps(rows, sizes, h.size(0), x.size(0));
  const DistinctRows distinct(words, x.size(0));
  const GateSums sums(x, kernel, bias, distinct);
  at::Tensor gates = sums.gates();
  at::Tensor states = with_first(h, x.size(0));
  at::Tensor inner = empty_float({x.size(0), n});
  OptionalTensor added;
  if (recurrent_bias) added = recurrent_bias->contiguous();
  const int64_t z = reset_first ? n : 0;
  const Scratch packed = packed_forward(recurrent, {z, n - z, 2 * n});
  const GruForward call{.steps = steps.view(),
                        .units = n,
                        .first = {z, n - z, 2 * n},
                        .packed = packed.data(),
                        .recurrent_bias = floats_or_null(added),
                        .inputs = sums.view(),
                        .gates = gates.mutable_data_ptr<float>(),
                        .inner = inner.mutable_data_ptr<float>(),
                        .states = states.mutable_data_ptr<float>()};
  steps.in_parts(3 * n * n, [&](int64_t begin, int64_t end) {
    chosen_kernels().gru_forward(call, begin, end);
  });
  at::Tensor last = steps.last(states);
  return {std::move(states), std::move(gates), std::move(inner), std::move(last)};
}

Tensors4 gru_backward_cpu(const OptionalTensor& dy, const OptionalTensor& dh,
                          const at::Tensor& states, const at::Tensor& gates,
                          const at::Tensor& inner, const at::Tensor& recurrent,
                          const OptionalTensor& rows, at::IntArrayRef sizes, bool reset_first,
                          bool wants_first) {
  if (!is_cpu_float(states)) {
    return decomposed::gru_backward(dy, dh, states, gates, inner, recurrent, rows, sizes,
                                    reset_first, wants_first);
  }
  check_saved(states, gates, recurrent, 3);
  const int64_t n = states.size(1);
  const int64_t total = gates.size(0);
  const int64_t batch = states.size(0) - total;
  check(is_matrix(inner, total, n) && inner.is_contiguous(), "expected what the forward pass gave");
  const Steps steps(rows, sizes, batch, total);
  const OptionalTensor dy_rows = row_gradients(dy, total, n);
  at::Tensor dh_now = state_gradient(dh, batch, n);
  at::Tensor dinputs = empty_float({total, 3 * n});
  at::Tensor dstates = empty_float({total, 3 * n});
  const int64_t z = reset_first ? n : 0;
  const Scratch packed = packed_transposed(recurrent, {z, n - z, 2 * n});
  const GruBackward call{.steps = steps.view(),
                         .units = n,
                         .first = {z, n - z, 2 * n},
                         .packed = packed.data(),
                         .gates = gates.const_data_ptr<float>(),
                         .inner = inner.const_data_ptr<float>(),
                         .states = states.const_data_ptr<float>(),
                         .dy = floats_or_null(dy_rows),
                         .dh = dh_now.mutable_data_ptr<float>(),
                         .dinputs = dinputs.mutable_data_ptr<float>(),
                         .dstates = dstates.mutable_data_ptr<float>(),
                         .wants_first = wants_first};
  steps.in_parts(3 * n * n, [&](int64_t begin, int64_t end) {
    chosen_kernels().gru_backward(call, begin, end);
  });
  at::Tensor drecurrent = at::mm(steps.before(states).t(), dstates);
  at::Tensor dbias = dstates.sum(0);
  return {std::move(dinputs), std::move(dh_now), std::move(drecurrent), std::move(dbias)};
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "lstm(Tensor x, Tensor h, Tensor c, Tensor kernel, Tensor recurrent, Tensor? bias,"
      " Tensor? rows, int[] sizes, Tensor? words) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "lstm_backward(Tensor? dy, Tensor? dh, Tensor? dc, Tensor states, Tensor cells,"
      " Tensor gates, Tensor recurrent, Tensor? rows, int[] sizes, bool wants_first)"
      " -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "gru(Tensor x, Tensor h, Tensor kernel, Tensor recurrent, Tensor? bias,"
      " Tensor? recurrent_bias, Tensor? rows, int[] sizes, bool reset_first, Tensor? words)"
      " -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "gru_backward(Tensor? dy, Tensor? dh, Tensor states, Tensor gates, Tensor inner,"
      " Tensor recurrent, Tensor? rows, int[] sizes, bool reset_first, bool wants_first)"
      " -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("lstm", lstm_cpu);
  library.impl("lstm_backward", lstm_backward_cpu);
  library.impl("gru", gru_cpu);
  library.impl("gru_backward", gru_backward_cpu);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("lstm", decomposed::lstm);
  library.impl("lstm_backward", decomposed::lstm_backward);
  library.impl("gru", decomposed::gru);
  library.impl("gru_backward", decomposed::gru_backward);
}

}  // namespace

Tensors5 call_lstm(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                   const at::Tensor& kernel, const at::Tensor& recurrent,
                   const OptionalTensor& bias, const OptionalTensor& rows, at::IntArrayRef sizes,
                   const OptionalTensor& words) {
  static const auto call = find_operator<decltype(lstm_cpu)>("strata::lstm");
  return call.call(x, h, c, kernel, recurrent, bias, rows, sizes, words);
}

Tensors4 call_lstm_backward(const OptionalTensor& dy, const OptionalTensor& dh,
                            const OptionalTensor& dc, const at::Tensor& states,
                            const at::Tensor& cells, const at::Tensor& gates,
                            const at::Tensor& recurrent, const OptionalTensor& rows,
                            at::IntArrayRef sizes, bool wants_first) {
  static const auto call = find_operator<decltype(lstm_backward_cpu)>("strata::lstm_backward");
  return call.call(dy, dh, dc, states, cells, gates, recurrent, rows, sizes, wants_first);
}

Tensors4 call_gru(const at::Tensor& x, const at::Tensor& h, const at::Tensor& kernel,
                  const at::Tensor& recurrent, const OptionalTensor& bias,
                  const OptionalTensor& recurrent_bias, const OptionalTensor& rows,
                  at::IntArrayRef sizes, bool reset_first, const OptionalTensor& words) {
  static const auto call = find_operator<decltype(gru_cpu)>("strata::gru");
  return call.call(x, h, kernel, recurrent, bias, recurrent_bias, rows, sizes, reset_first, words);
}

Tensors4 call_gru_backward(const OptionalTensor& dy, const OptionalTensor& dh,
                           const at::Tensor& states, const at::Tensor& gates,
                           const at::Tensor& inner, const at::Tensor& recurrent,
                           const OptionalTensor& rows, at::IntArrayRef sizes, bool reset_first,
                           bool wants_first) {
  static const auto call = find_operator<decltype(gru_backward_cpu)>("strata::gru_backward");
  return call.call(dy, dh, states, gates, inner, recurrent, rows, sizes, reset_first, wants_first);
}

}  // namespace strata::kernels
