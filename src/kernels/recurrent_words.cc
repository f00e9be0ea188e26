#include "kernels/recurrent_words.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <bit>
#include <cstring>

#include "kernels/find_operator.h"
#include "kernels/products.h"
#include "kernels/row_sums.h"
#include "strata/core/error.h"

namespace strata::kernels {

DistinctRows::DistinctRows(const OptionalTensor& words, int64_t rows)
    : known_(words && words->defined()), rows_(rows) {
  if (!known_) return;
  STRATA_CHECK(words->is_cpu() && words->scalar_type() == at::kLong && words->numel() == rows,
               kInvalidArgument, "[recurrent] words: expected int64, as many as x has rows");
  const at::Tensor numbers = words->contiguous();
  const int64_t* const number = numbers.const_data_ptr<int64_t>();
  // A table with open addressing, of places; -1 is free. At most half of it is taken.
  const int bits = std::bit_width(static_cast<uint64_t>(rows)) + 1;
  std::vector<int64_t> table(size_t{1} << bits, -1);
  const size_t mask = table.size() - 1;
  places_.reserve(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    size_t at = static_cast<uint64_t>(number[row]) * 0x9E3779B97F4A7C15U >> (64 - bits);
    while (table[at] >= 0 && number[firsts_[static_cast<size_t>(table[at])]] != number[row]) {
      at = (at + 1) & mask;
    }
    if (table[at] < 0) {
      table[at] = count();
      firsts_.push_back(row);
    }
    places_.push_back(table[at]);
  }
}

at::Tensor DistinctRows::gathered(const at::Tensor& x) const {
  const auto from = x.expect_contiguous();
  const int64_t width = x.size(1);
  at::Tensor result = empty_float({count(), width});
  const float* const rows = from->const_data_ptr<float>();
  float* to = result.mutable_data_ptr<float>();
  for (const int64_t first : firsts_) {
    std::memcpy(to, rows + first * width, static_cast<size_t>(width) * sizeof(float));
    to += width;
  }
  return result;
}

at::Tensor DistinctRows::summed(const at::Tensor& gradient) const {
  const auto values = gradient.expect_contiguous();
  at::Tensor sums = empty_float({count(), gradient.size(1)});
  sum_rows({.values = values->const_data_ptr<float>(),
            .rows = places(),
            .count = rows_,
            .left_out = -1,
            .width = gradient.size(1),
            .sums = sums.mutable_data_ptr<float>()},
           count());
  return sums;
}

at::Tensor DistinctRows::scattered(const at::Tensor& distinct) const {
  const auto from = distinct.expect_contiguous();
  const int64_t width = distinct.size(1);
  at::Tensor result = empty_float({rows_, width});
  result.zero_();
  const float* row = from->const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  for (const int64_t first : firsts_) {
    std::memcpy(to + first * width, row, static_cast<size_t>(width) * sizeof(float));
    row += width;
  }
  return result;
}

namespace {

/// Of each number the place of the first that equals it. In libtorch's operators, all of which know
/// their shapes.
at::Tensor first_of_equals(const at::Tensor& numbers) {
  const int64_t count = numbers.size(0);
  const auto [sorted, order] = numbers.sort(/*stable=*/true, 0, /*descending=*/false);
  const at::Tensor differs =
      at::cat({at::zeros_like(sorted.narrow(0, 0, 1)),
               (sorted.narrow(0, 1, count - 1) != sorted.narrow(0, 0, count - 1)).to(at::kLong)});
  const at::Tensor group = at::zeros_like(numbers).scatter(0, order, differs.cumsum(0));
  return at::full_like(numbers, count)
      .scatter_reduce(0, group, at::arange(count, numbers.options()), "amin")
      .gather(0, group);
}

using InputsBackward = InputsGradients(const at::Tensor&, const OptionalTensor&,
                                       const OptionalTensor&, const at::Tensor&, bool, bool);

InputsGradients inputs_backward_cpu(const at::Tensor& gradient, const OptionalTensor& x,
                                    const OptionalTensor& kernel, const at::Tensor& words,
                                    bool by_columns, bool wants_bias) {
  if (!is_cpu_float(gradient)) {
    return decomposed::recurrent_inputs_backward(gradient, x, kernel, words, by_columns,
                                                 wants_bias);
  }
  using Backward =
      InputsGradients(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, bool, bool);
  static const auto backward = find_operator<Backward>("strata::addmm_backward");
  const DistinctRows distinct(words, gradient.size(0));
  if (distinct.worthwhile()) {
    auto [dbias, dx, dkernel] = backward.call(
        distinct.summed(gradient), x ? OptionalTensor(distinct.gathered(*x)) : std::nullopt, kernel,
        by_columns, wants_bias);
    if (kernel) dx = distinct.scattered(dx);
    return {std::move(dbias), std::move(dx), std::move(dkernel)};
  }
  auto [dbias, dx, dkernel] = backward.call(gradient, x, kernel, by_columns, wants_bias);
  if (kernel) dx = distinct.scattered(distinct.summed(dx));
  return {std::move(dbias), std::move(dx), std::move(dkernel)};
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "recurrent_inputs_backward(Tensor gradient, Tensor? x, Tensor? kernel, Tensor words,"
      " bool by_columns, bool wants_bias) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("recurrent_inputs_backward", inputs_backward_cpu);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("recurrent_inputs_backward", decomposed::recurrent_inputs_backward);
}

}  // namespace

InputsGradients call_recurrent_inputs_backward(const at::Tensor& gradient, const OptionalTensor& x,
                                               const OptionalTensor& kernel,
                                               const at::Tensor& words, bool by_columns,
                                               bool wants_bias) {
  static const auto call = find_operator<InputsBackward>("strata::recurrent_inputs_backward");
  return call.call(gradient, x, kernel, words, by_columns, wants_bias);
}

InputsGradients decomposed::recurrent_inputs_backward(const at::Tensor& gradient,
                                                      const OptionalTensor& x,
                                                      const OptionalTensor& kernel,
                                                      const at::Tensor& words, bool by_columns,
                                                      bool wants_bias) {
  InputsGradients result;
  if (wants_bias) std::get<0>(result) = gradient.sum(0);
  if (kernel) {
    const at::Tensor sums = at::zeros_like(gradient).index_add(0, first_of_equals(words), gradient);
    std::get<1>(result) = at::mm(sums, kernel->t());
  }
  if (x) {
    std::get<2>(result) = by_columns ? at::mm(gradient.t(), *x).t() : at::mm(x->t(), gradient);
  }
  return result;
}

}  // namespace strata::kernels
