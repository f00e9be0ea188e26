#include "strata/optim/metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isfinite.h>
#include <torch/library.h>

#include <cmath>

#include "kernels/find_operator.h"
#include "optim/shapes.h"
#include "strata/core/error.h"

namespace strata::metrics {
namespace {

using at::Tensor;

Tensor labels_of(const char* function, const Tensor& y_true, const Tensor& y_pred) {
  Tensor labels = y_true;
  if (labels.dim() == y_pred.dim() && labels.dim() > 0 && labels.size(-1) == 1)
    labels = labels.squeeze(-1);
  STRATA_CHECK(y_pred.dim() >= 1 && y_pred.size(-1) > 0 &&
                   labels.sizes() == y_pred.sizes().slice(0, static_cast<size_t>(y_pred.dim() - 1)),
               kInvalidArgument, "[metrics] ", function, ": got y_true of shape ", y_true.sizes(),
               " and y_pred of shape ", y_pred.sizes(),
               "; expected one class number for each row of y_pred");
  return labels.scalar_type() == at::kLong ? labels : labels.to(at::kLong);
}

Tensor classes_of(const char* function, const Tensor& y_true, const Tensor& y_pred) {
  STRATA_CHECK(y_pred.dim() >= 1 && y_pred.size(-1) > 0 && y_true.sizes() == y_pred.sizes(),
               kInvalidArgument, "[metrics] ", function, ": got y_true of shape ", y_true.sizes(),
               " and y_pred of shape ", y_pred.sizes(), "; expected equal shapes");
  return y_true.argmax(-1);
}

// At 64 x 10 this takes a tenth of argmax, eq and a conversion. An operator, so that whatever
// records a step below autograd sees it.
Tensor matches_on_cpu(const Tensor& labels, const Tensor& scores) {
  const auto x = scores.expect_contiguous();
  const auto y = labels.expect_contiguous();
  Tensor result = at::empty(labels.sizes(), labels.options().dtype(at::kFloat));
  const float* row = x->const_data_ptr<float>();
  const int64_t* const wanted = y->const_data_ptr<int64_t>();
  float* const out = result.mutable_data_ptr<float>();
  const int64_t rows = labels.numel(), classes = scores.size(-1);
  for (int64_t r = 0; r < rows; ++r, row += classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      // The first of equals; the first NaN, as argmax has it.
      if (row[c] > row[best] || (std::isnan(row[c]) && !std::isnan(row[best]))) best = c;
    }
    out[r] = best == wanted[r] ? 1.0F : 0.0F;
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def("argmax_matches(Tensor labels, Tensor scores) -> Tensor");
}
TORCH_LIBRARY_IMPL(strata, CPU, library) { library.impl("argmax_matches", matches_on_cpu); }

Tensor matches_by_libtorch(const Tensor& labels, const Tensor& scores) {
  return (scores.argmax(-1) == labels).to(at::kFloat);
}
TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("argmax_matches", matches_by_libtorch);
}

Tensor matches(const Tensor& labels, const Tensor& y_pred) {
  if (y_pred.is_cpu() && labels.is_cpu() && y_pred.scalar_type() == at::kFloat) {
    static const auto operation =
        kernels::find_operator<Tensor(const Tensor&, const Tensor&)>("strata::argmax_matches");
    const at::AutoDispatchBelowADInplaceOrView below;
    return operation.call(labels, y_pred);
  }
  return matches_by_libtorch(labels, y_pred);
}

Tensor in_top_k(const Tensor& labels, const Tensor& y_pred, int64_t k) {
  const int64_t classes = y_pred.size(-1);
  const Tensor known = (labels >= 0).logical_and_(labels < classes);
  const Tensor right = y_pred.gather(-1, labels.clamp(0, classes - 1).unsqueeze(-1));
  const Tensor larger = (y_pred > right).sum(-1);
  return (larger < k).logical_and_(known).logical_and_(at::isfinite(y_pred).all(-1)).to(at::kFloat);
}

}  // namespace

Tensor accuracy(const Tensor& y_true, const Tensor& y_pred) {
  const at::NoGradGuard no_grad;
  Tensor truth = y_true, prediction = y_pred;
  strata::detail::match_shapes("metrics", "accuracy", truth, prediction);
  return (truth.to(prediction.scalar_type()) == prediction).to(at::kFloat);
}

Tensor binary_accuracy(const Tensor& y_true, const Tensor& y_pred, double threshold) {
  const at::NoGradGuard no_grad;
  Tensor truth = y_true, prediction = y_pred;
  strata::detail::match_shapes("metrics", "binary_accuracy", truth, prediction);
  return (truth == (prediction > threshold).to(truth.scalar_type())).to(at::kFloat);
}

Tensor categorical_accuracy(const Tensor& y_true, const Tensor& y_pred) {
  const at::NoGradGuard no_grad;
  return matches(classes_of("categorical_accuracy", y_true, y_pred), y_pred);
}

Tensor sparse_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred) {
  const at::NoGradGuard no_grad;
  return matches(labels_of("sparse_categorical_accuracy", y_true, y_pred), y_pred);
}

Tensor top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, int64_t k) {
  const at::NoGradGuard no_grad;
  return in_top_k(classes_of("top_k_categorical_accuracy", y_true, y_pred), y_pred, k);
}

Tensor sparse_top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, int64_t k) {
  const at::NoGradGuard no_grad;
  return in_top_k(labels_of("sparse_top_k_categorical_accuracy", y_true, y_pred), y_pred, k);
}

}  // namespace strata::metrics
