// Layer normalization: libtorch's operator in replica functions, one that adds first, and RMS
// normalization.
#include "kernels/layer_norm.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/autograd_node.h"
#include "kernels/bf16_tensor.h"
#include "kernels/dispatch_key.h"
#include "kernels/find_operator.h"
#include "kernels/kernel_threads.h"
#include "kernels/layer_kernels.h"
#include "kernels/layer_norm_kernels.h"
#include "kernels/optional_tensor.h"
#include "kernels/products.h"
#include "kernels/registration.h"
#include "kernels/scratch.h"

namespace strata::kernels {

const LayerNormKernels& layer_norm_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), layer_norm_kernels);
}

namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

struct Rows {
  int64_t rows;
  int64_t columns;
};

/// Rows of what the last dimensions, as many as `normalized`, hold.
Rows rows_of(const at::Tensor& x, int64_t normalized) {
  int64_t columns = 1;
  for (int64_t d = x.dim() - normalized; d < x.dim(); ++d) columns *= x.size(d);
  return {x.numel() / columns, columns};
}

/// float or bfloat16: what rows are of. What is kept of a row, and weights, are floats.
bool is_element(const at::Tensor& tensor) {
  return (is_cpu_float(tensor) || takes_bfloat16(tensor)) && !tensor.is_neg();
}

bool is_dense_float(const at::Tensor& tensor) {
  return tensor.defined() && is_cpu_float(tensor) && tensor.is_contiguous() && !tensor.is_neg();
}

/// Calls run(a null pointer to an element of x).
template <typename Run>
void for_element(const at::Tensor& x, const Run& run) {
  if (is_cpu_float(x)) {
    run(static_cast<const float*>(nullptr));
  } else {
    run(static_cast<const uint16_t*>(nullptr));
  }
}

template <typename Element>
const Element* elements(const at::Tensor& x) {
  return static_cast<const Element*>(x.const_data_ptr());
}
template <typename Element>
const Element* elements(const OptionalTensor& x) {
  return x && x->defined() ? elements<Element>(*x) : nullptr;
}
template <typename Element>
Element* mutable_elements(const at::Tensor& x) {
  return x.defined() ? static_cast<Element*>(x.mutable_data_ptr()) : nullptr;
}

at::Tensor empty_of(const at::Tensor& x) {
  return at::detail::empty_cpu(x.sizes(), x.scalar_type());
}

// --- The passes

const LayerNormsOf<float>& kernels_of(const float*) { return layer_norm_kernels().of_float; }
const LayerNormsOf<uint16_t>& kernels_of(const uint16_t*) { return layer_norm_kernels().of_bf16; }

/// A thread's memory for a row.
template <typename Element>
Scratch room_for(int64_t columns) {
  return Scratch(sizeof(Element) < sizeof(float) ? kLayerNormRoom * columns : 0);
}

template <typename Element>
void run_forward(const Rows& shape, const LayerNormForward<Element>& arrays) {
  const int64_t grain = std::max<int64_t>(1, kPartElements / shape.columns);
  parallel_for(0, shape.rows, grain, [&](int64_t begin, int64_t end) {
    const Scratch room = room_for<Element>(shape.columns);
    kernels_of(arrays.x).forward(shape.columns, arrays, begin, end, room.data());
  });
}

/// Rows that add to one part of the gradients of weight and bias: the shape alone decides.
int64_t rows_of_part(int64_t rows) {
  constexpr int64_t kFewestRows = 32;
  constexpr int64_t kMostParts = 64;
  return std::max(kFewestRows, (rows + kMostParts - 1) / kMostParts);
}

/// @param dbias  Null where there is no mean.
template <typename Element>
void run_backward(const Rows& shape, const LayerNormBackward<Element>& arrays, float* dweight,
                  float* dbias) {
  const int64_t rows = shape.rows;
  const int64_t columns = shape.columns;
  const int64_t each = rows_of_part(rows);
  const int64_t parts = (rows + each - 1) / each;
  const LayerNormsOf<Element>& kernels = kernels_of(arrays.x);
  if (parts == 1) {
    const Scratch room = room_for<Element>(columns);
    kernels.backward(columns, arrays, 0, rows, dweight, dbias, room.data());
    return;
  }
  const int64_t stride = dbias == nullptr ? columns : 2 * columns;
  const Scratch scratch(parts * stride);
  const int64_t grain = std::max<int64_t>(1, kPartElements / (each * columns));
  parallel_for(0, parts, grain, [&](int64_t first, int64_t last) {
    const Scratch room = room_for<Element>(columns);
    for (int64_t part = first; part < last; ++part) {
      float* const sums = scratch.data() + part * stride;
      kernels.backward(columns, arrays, part * each, std::min(rows, (part + 1) * each), sums,
                       dbias == nullptr ? nullptr : sums + columns, room.data());
    }
  });
  layer_kernels().column_sums(scratch.data(), parts, columns, stride, dweight);
  if (dbias != nullptr) {
    layer_kernels().column_sums(scratch.data() + columns, parts, columns, stride, dbias);
  }
}

/// `given`, or as many of `value` where it is undefined.
at::Tensor or_all(const OptionalTensor& given, int64_t columns, double value) {
  if (given && given->defined()) return *given;
  at::Tensor all = empty_float({columns});
  std::fill_n(all.mutable_data_ptr<float>(), columns, static_cast<float>(value));
  return all;
}

/// @param mean  Undefined: it was not subtracted.
/// @return The gradients of x, weight and bias; those that are not wanted are undefined.
Three backward_of_rows(const Rows& shape, const at::Tensor& gradient, const OptionalTensor& of_sum,
                       const at::Tensor& x, const OptionalTensor& weight, const at::Tensor& mean,
                       const at::Tensor& inverse, std::array<bool, 3> wanted) {
  const at::Tensor scale = or_all(weight, shape.columns, 1);
  at::Tensor dx;
  if (wanted[0]) dx = empty_of(x);
  at::Tensor dweight = empty_float({shape.columns});
  at::Tensor dbias;
  if (mean.defined()) dbias = empty_float({shape.columns});
  for_element(x, [&]<typename Element>(const Element*) {
    run_backward<Element>(shape,
                          {.gradient = elements<Element>(gradient),
                           .of_sum = elements<Element>(of_sum),
                           .x = elements<Element>(x),
                           .weight = scale.const_data_ptr<float>(),
                           .mean = mean.defined() ? mean.const_data_ptr<float>() : nullptr,
                           .inverse = inverse.const_data_ptr<float>(),
                           .dx = mutable_elements<Element>(dx)},
                          dweight.mutable_data_ptr<float>(), mutable_elements<float>(dbias));
  });
  if (!wanted[1]) dweight.reset();
  if (!wanted[2]) dbias.reset();
  return {std::move(dx), std::move(dweight), std::move(dbias)};
}

// --- libtorch's operator, in replica functions

std::optional<Rows> rows_to_take(const at::Tensor& x, c10::SymIntArrayRef normalized,
                                 const OptionalTensor& weight, const OptionalTensor& bias) {
  const auto count = static_cast<int64_t>(normalized.size());
  if (!runs_here(KernelClass::kLayerNorm) || !is_element(x) || x.numel() == 0 || count < 1 ||
      count > x.dim()) {
    return std::nullopt;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (normalized[static_cast<size_t>(i)] != x.size(x.dim() - count + i)) return std::nullopt;
  }
  // Without float weights libtorch keeps bfloat16 of each row.
  const bool has_weights = (weight && weight->defined()) || (bias && bias->defined());
  if (!is_cpu_float(x) && !has_weights) return std::nullopt;
  const Rows rows = rows_of(x, count);
  for (const OptionalTensor* each : {&weight, &bias}) {
    if (!*each || !(*each)->defined()) continue;
    if (!is_dense_float(**each) || (*each)->numel() != rows.columns) return std::nullopt;
  }
  return rows;
}

Three native_layer_norm(c10::DispatchKeySet keys, const at::Tensor& given,
                        c10::SymIntArrayRef normalized, const OptionalTensor& weight,
                        const OptionalTensor& bias, double epsilon) {
  const auto shape = rows_to_take(given, normalized, weight, bias);
  if (!shape) {
    return at::_ops::native_layer_norm::redispatch(keys & kBelowReplicaKey, given, normalized,
                                                   weight, bias, epsilon);
  }
  const auto x = given.expect_contiguous();
  const at::Tensor scale = or_all(weight, shape->columns, 1);
  const at::Tensor shift = or_all(bias, shape->columns, 0);
  std::vector<int64_t> of_rows = given.sizes().vec();
  std::fill(of_rows.end() - static_cast<int64_t>(normalized.size()), of_rows.end(), 1);
  at::Tensor y = empty_of(given);
  at::Tensor mean = empty_float(of_rows);
  at::Tensor inverse = empty_float(of_rows);
  for_element(given, [&]<typename Element>(const Element*) {
    run_forward<Element>(*shape, {.x = elements<Element>(*x),
                                  .beside = nullptr,
                                  .weight = scale.const_data_ptr<float>(),
                                  .bias = shift.const_data_ptr<float>(),
                                  .epsilon = epsilon,
                                  .sum = nullptr,
                                  .y = mutable_elements<Element>(y),
                                  .mean = mean.mutable_data_ptr<float>(),
                                  .inverse = inverse.mutable_data_ptr<float>()});
  });
  return {std::move(y), std::move(mean), std::move(inverse)};
}

Three native_layer_norm_backward(c10::DispatchKeySet keys, const at::Tensor& gradient,
                                 const at::Tensor& given, c10::SymIntArrayRef normalized,
                                 const at::Tensor& mean, const at::Tensor& inverse,
                                 const OptionalTensor& weight, const OptionalTensor& bias,
                                 std::array<bool, 3> wanted) {
  const auto shape = rows_to_take(given, normalized, weight, bias);
  const auto fits = [&](const at::Tensor& each) {
    return is_dense_float(each) && each.numel() == shape->rows;
  };
  if (!shape || !is_element(gradient) || gradient.scalar_type() != given.scalar_type() ||
      gradient.sizes() != given.sizes() || !fits(mean) || !fits(inverse)) {
    return at::_ops::native_layer_norm_backward::redispatch(
        keys & kBelowReplicaKey, gradient, given, normalized, mean, inverse, weight, bias, wanted);
  }
  const auto dy = gradient.expect_contiguous();
  const auto x = given.expect_contiguous();
  Three result = backward_of_rows(*shape, *dy, {}, *x, weight, mean, inverse, wanted);
  if (weight && weight->defined() && weight->dim() > 1) {
    for (at::Tensor* each : {&std::get<1>(result), &std::get<2>(result)}) {
      if (each->defined()) *each = each->view(weight->sizes());
    }
  }
  return result;
}

// --- Operators of our own. `normalized`: how many of the last dimensions.

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> of_sum_cpu(
    const at::Tensor& x, const at::Tensor& beside, const OptionalTensor& weight,
    const OptionalTensor& bias, int64_t normalized, double epsilon) {
  const Rows shape = rows_of(x, normalized);
  const at::Tensor scale = or_all(weight, shape.columns, 1);
  const at::Tensor shift = or_all(bias, shape.columns, 0);
  at::Tensor y = empty_of(x);
  at::Tensor sum = empty_of(x);
  at::Tensor mean = empty_float({shape.rows});
  at::Tensor inverse = empty_float({shape.rows});
  for_element(x, [&]<typename Element>(const Element*) {
    run_forward<Element>(shape, {.x = elements<Element>(x),
                                 .beside = elements<Element>(beside),
                                 .weight = scale.const_data_ptr<float>(),
                                 .bias = shift.const_data_ptr<float>(),
                                 .epsilon = epsilon,
                                 .sum = mutable_elements<Element>(sum),
                                 .y = mutable_elements<Element>(y),
                                 .mean = mean.mutable_data_ptr<float>(),
                                 .inverse = inverse.mutable_data_ptr<float>()});
  });
  return {std::move(y), std::move(sum), std::move(mean), std::move(inverse)};
}

std::vector<int64_t> last_sizes(const at::Tensor& x, int64_t normalized) {
  return x.sizes().slice(static_cast<size_t>(x.dim() - normalized)).vec();
}

at::Tensor mean_of_rows(const at::Tensor& x, int64_t normalized) {
  std::vector<int64_t> axes;
  for (int64_t axis = -normalized; axis < 0; ++axis) axes.push_back(axis);
  return at::mean(x, axes, /*keepdim=*/true);
}

/// The same by libtorch's operators, for what records or lowers a step, and to be differentiated
/// again.
at::Tensor widened(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

struct Statistics {
  at::Tensor mean;
  at::Tensor inverse;
};

Statistics statistics_of(const at::Tensor& x, int64_t normalized, double epsilon) {
  const at::Tensor mean = mean_of_rows(x, normalized);
  return {mean, (mean_of_rows((x - mean).square(), normalized) + epsilon).rsqrt()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> of_sum_by_libtorch(
    const at::Tensor& x, const at::Tensor& beside, const OptionalTensor& weight,
    const OptionalTensor& bias, int64_t normalized, double epsilon) {
  at::Tensor sum = x + beside;
  const at::Tensor wide = widened(sum);
  const auto [mean, inverse] = statistics_of(wide, normalized, epsilon);
  at::Tensor y = (wide - mean) * inverse;
  if (weight) y = y * *weight;
  if (bias) y = y + *bias;
  return {y.to(sum.scalar_type()), std::move(sum), mean.flatten(), inverse.flatten()};
}

Three of_sum_backward_cpu(const at::Tensor& gradient, const OptionalTensor& of_sum,
                          const at::Tensor& sum, const OptionalTensor& weight,
                          const at::Tensor& mean, const at::Tensor& inverse, int64_t normalized) {
  const auto dy = gradient.expect_contiguous();
  OptionalTensor other;
  if (of_sum) other = of_sum->contiguous();
  return backward_of_rows(rows_of(sum, normalized), *dy, other, sum, weight, mean, inverse,
                          {true, true, true});
}

/// What was kept of each row, in x's number of dimensions.
at::Tensor beside_rows(const at::Tensor& of_rows, const at::Tensor& x, int64_t normalized) {
  std::vector<int64_t> sizes = x.sizes().vec();
  std::fill(sizes.end() - normalized, sizes.end(), 1);
  return of_rows.view(sizes);
}

Three of_sum_backward_by_libtorch(const at::Tensor& gradient, const OptionalTensor& of_sum,
                                  const at::Tensor& sum, const OptionalTensor& weight,
                                  const at::Tensor& mean, const at::Tensor& inverse,
                                  int64_t normalized) {
  const at::Tensor scale = beside_rows(inverse, sum, normalized);
  const at::Tensor normal = (widened(sum) - beside_rows(mean, sum, normalized)) * scale;
  const at::Tensor of_y = widened(gradient);
  const at::Tensor weighted = weight ? of_y * *weight : of_y;
  const at::Tensor apart = weighted - mean_of_rows(weighted, normalized);
  at::Tensor dx = (apart - normal * mean_of_rows(weighted * normal, normalized)) * scale;
  dx = dx.to(sum.scalar_type());
  if (of_sum) dx = dx + *of_sum;
  const std::vector<int64_t> sizes = last_sizes(sum, normalized);
  return {std::move(dx), (of_y * normal).sum_to_size(sizes).flatten(),
          of_y.sum_to_size(sizes).flatten()};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_cpu(const at::Tensor& x, const at::Tensor& weight,
                                                double epsilon) {
  const Rows shape = rows_of(x, weight.dim());
  at::Tensor y = empty_float(x.sizes());
  at::Tensor inverse = empty_float({shape.rows});
  run_forward<float>(shape, {.x = x.const_data_ptr<float>(),
                             .beside = nullptr,
                             .weight = weight.const_data_ptr<float>(),
                             .bias = nullptr,
                             .epsilon = epsilon,
                             .sum = nullptr,
                             .y = y.mutable_data_ptr<float>(),
                             .mean = nullptr,
                             .inverse = inverse.mutable_data_ptr<float>()});
  return {std::move(y), std::move(inverse)};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_by_libtorch(const at::Tensor& x,
                                                        const at::Tensor& weight, double epsilon) {
  const at::Tensor inverse = (mean_of_rows(x.square(), weight.dim()) + epsilon).rsqrt();
  return {x * inverse * weight, inverse.flatten()};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward_cpu(const at::Tensor& gradient,
                                                         const at::Tensor& x,
                                                         const at::Tensor& weight,
                                                         const at::Tensor& inverse) {
  const auto dy = gradient.expect_contiguous();
  auto [dx, dweight, dbias] = backward_of_rows(rows_of(x, weight.dim()), *dy, {}, x, weight, {},
                                               inverse, {true, true, false});
  return {std::move(dx), dweight.view(weight.sizes())};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward_by_libtorch(const at::Tensor& gradient,
                                                                 const at::Tensor& x,
                                                                 const at::Tensor& weight,
                                                                 const at::Tensor& inverse) {
  const at::Tensor scale = beside_rows(inverse, x, weight.dim());
  const at::Tensor normal = x * scale;
  const at::Tensor weighted = gradient * weight;
  const at::Tensor slope = mean_of_rows(weighted * normal, weight.dim());
  return {(weighted - normal * slope) * scale, (gradient * normal).sum_to_size(weight.sizes())};
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "layer_norm_of_sum(Tensor x, Tensor beside, Tensor? weight, Tensor? bias, int normalized,"
      " float epsilon) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "layer_norm_of_sum_backward(Tensor gradient, Tensor? of_sum, Tensor sum, Tensor? weight,"
      " Tensor mean, Tensor inverse, int normalized) -> (Tensor, Tensor, Tensor)");
  library.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> (Tensor, Tensor)");
  library.def(
      "rms_norm_backward(Tensor gradient, Tensor x, Tensor weight, Tensor inverse)"
      " -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("layer_norm_of_sum", of_sum_cpu);
  library.impl("layer_norm_of_sum_backward", of_sum_backward_cpu);
  library.impl("rms_norm", rms_norm_cpu);
  library.impl("rms_norm_backward", rms_norm_backward_cpu);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("layer_norm_of_sum", of_sum_by_libtorch);
  library.impl("layer_norm_of_sum_backward", of_sum_backward_by_libtorch);
  library.impl("rms_norm", rms_norm_by_libtorch);
  library.impl("rms_norm_backward", rms_norm_backward_by_libtorch);
}

// --- Nodes of the graph

struct LayerNormOfSumBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& of_y = gradients[0];
    const at::Tensor& of_sum = gradients[1];
    variable_list results(4);
    if (!of_y.defined()) {
      results[0] = results[1] = of_sum;
      return results;
    }
    const at::Tensor sum_value = sum.unpack(pointer_to(*this));
    const at::Tensor weight_value = weight.unpack();
    OptionalTensor scale;
    if (weight_value.defined()) scale = weight_value;
    OptionalTensor other;
    if (of_sum.defined()) other = of_sum;
    at::Tensor dx, dweight, dbias;
    const auto fits = [&](const at::Tensor& each) {
      return is_element(each) && each.scalar_type() == sum_value.scalar_type();
    };
    const bool plain = fits(of_y) && (!other || fits(*other));
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled() || !plain) {
      // What was kept is constant to autograd.
      const auto [centre, scaling] = statistics_of(widened(sum_value), normalized, epsilon);
      std::tie(dx, dweight, dbias) =
          of_sum_backward_by_libtorch(of_y, other, sum_value, scale, centre, scaling, normalized);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      static const auto backward =
          find_operator<decltype(of_sum_backward_cpu)>("strata::layer_norm_of_sum_backward");
      std::tie(dx, dweight, dbias) =
          backward.call(of_y, other, sum_value, scale, mean, inverse, normalized);
    }
    results[0] = dx;
    results[1] = std::move(dx);
    const std::vector<int64_t> sizes = last_sizes(sum_value, normalized);
    if (task_should_compute_output(2)) results[2] = dweight.view(sizes);
    if (task_should_compute_output(3)) results[3] = dbias.view(sizes);
    return results;
  }
  void release_variables() override {
    sum.reset_data();
    weight.reset_data();
    mean.reset();
    inverse.reset();
  }
  std::string name() const override { return "LayerNormOfSumBackward"; }

  SavedVariable sum;
  SavedVariable weight;
  at::Tensor mean;
  at::Tensor inverse;
  int64_t normalized = 1;
  double epsilon = 0;
};

struct RmsNormBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& gradient = gradients[0];
    variable_list results(2);
    if (!gradient.defined()) return results;
    const at::Tensor x_value = x.unpack();
    const at::Tensor weight_value = weight.unpack();
    if (at::GradMode::is_enabled() || !is_cpu_float(gradient)) {
      // What was kept is constant to autograd.
      const at::Tensor scaling =
          (mean_of_rows(x_value.square(), weight_value.dim()) + epsilon).rsqrt();
      std::tie(results[0], results[1]) =
          rms_norm_backward_by_libtorch(gradient, x_value, weight_value, scaling);
      return results;
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto backward =
        find_operator<decltype(rms_norm_backward_cpu)>("strata::rms_norm_backward");
    std::tie(results[0], results[1]) = backward.call(gradient, x_value, weight_value, inverse);
    return results;
  }
  void release_variables() override {
    x.reset_data();
    weight.reset_data();
    inverse.reset();
  }
  std::string name() const override { return "RmsNormBackward"; }

  SavedVariable x;
  SavedVariable weight;
  at::Tensor inverse;
  double epsilon = 0;
};

bool is_plain_row_operand(const at::Tensor& tensor) {
  return runs_here(KernelClass::kLayerNorm) && is_dense_float(tensor) &&
         !tensor._fw_grad(0).defined();
}

bool is_dense_element(const at::Tensor& tensor) {
  return runs_here(KernelClass::kLayerNorm) && is_element(tensor) && tensor.is_contiguous() &&
         !tensor._fw_grad(0).defined();
}

/// Undefined, or of the last dimensions of x.
bool fits_rows(const at::Tensor& each, at::IntArrayRef sizes) {
  return !each.defined() || (is_plain_row_operand(each) && each.sizes() == sizes);
}

}  // namespace

std::optional<LayerNormOfSum> layer_norm_of_sum(const at::Tensor& x, const at::Tensor& beside,
                                                const at::Tensor& weight, const at::Tensor& bias,
                                                at::IntArrayRef normalized_shape, double epsilon) {
  const auto normalized = static_cast<int64_t>(normalized_shape.size());
  if (!is_dense_element(x) || !is_dense_element(beside) || beside.sizes() != x.sizes() ||
      beside.scalar_type() != x.scalar_type() || x.numel() == 0 || normalized < 1 ||
      normalized > x.dim() ||
      x.sizes().slice(static_cast<size_t>(x.dim() - normalized)) != normalized_shape ||
      !fits_rows(weight, normalized_shape) || !fits_rows(bias, normalized_shape)) {
    return std::nullopt;
  }
  LayerNormOfSum result;
  at::Tensor mean, inverse;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto forward = find_operator<decltype(of_sum_cpu)>("strata::layer_norm_of_sum");
    std::tie(result.y, result.sum, mean, inverse) =
        forward.call(x, beside, if_defined(weight), if_defined(bias), normalized, epsilon);
  }
  if (!wants_graph(x, beside, weight, bias)) return result;
  const auto node = make_node<LayerNormOfSumBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(x, beside, weight, bias));
  torch::autograd::set_history(variable_list{result.y, result.sum}, node);
  node->sum = SavedVariable(result.sum, /*is_output=*/true);
  node->weight = SavedVariable(weight, /*is_output=*/false);
  node->mean = std::move(mean);
  node->inverse = std::move(inverse);
  node->normalized = normalized;
  node->epsilon = epsilon;
  return result;
}

std::optional<at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (!is_plain_row_operand(x) || !is_plain_row_operand(weight) || x.numel() == 0 ||
      weight.dim() < 1 || weight.dim() > x.dim() ||
      x.sizes().slice(static_cast<size_t>(x.dim() - weight.dim())) != weight.sizes()) {
    return std::nullopt;
  }
  at::Tensor y, inverse;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto forward = find_operator<decltype(rms_norm_cpu)>("strata::rms_norm");
    std::tie(y, inverse) = forward.call(x, weight, epsilon);
  }
  if (!wants_graph(x, weight)) return y;
  const auto node = make_node<RmsNormBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(x, weight));
  torch::autograd::set_history(y, node);
  node->x = SavedVariable(x, /*is_output=*/false);
  node->weight = SavedVariable(weight, /*is_output=*/false);
  node->inverse = std::move(inverse);
  node->epsilon = epsilon;
  return y;
}

void register_layer_norm(torch::Library& library) {
  library.impl("native_layer_norm", TORCH_FN(native_layer_norm));
  library.impl("native_layer_norm_backward", TORCH_FN(native_layer_norm_backward));
}

}  // namespace strata::kernels
