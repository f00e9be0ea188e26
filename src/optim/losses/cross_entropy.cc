#include "optim/losses/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_cpu_dispatch.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "graph/direct_kernels.h"
#include "kernels/autograd_node.h"
#include "kernels/find_operator.h"
#include "kernels/kernel_threads.h"
#include "optim/losses/batch_rows.h"
#include "optim/losses/cross_entropy_kernels.h"
#include "strata/core/error.h"

namespace strata::losses {

const CrossEntropyKernels& cross_entropy_kernels(CpuIsa isa) {
  return STRATA_KERNELS_FOR(isa, cross_entropy_kernels);
}

void throw_bad_label(const at::Tensor& labels, int64_t index, int64_t classes) {
  const int64_t rows = labels.dim() == 0 ? 1 : labels.size(0);
  const int64_t row = index / (labels.numel() / rows);
  detail::throw_error(
      ErrorCode::kInvalidArgument,
      str_cat("[losses] sparse_categorical_crossentropy: got label ",
              labels.reshape(-1)[index].item<int64_t>(), " in ", row_in_batch(row, rows),
              "; expected 0 to ", classes - 1, ", for the ", classes, " classes of y_pred"));
}

namespace {

using strata::kernels::make_node;
using torch::autograd::Node;
using torch::autograd::variable_list;

const CrossEntropyKernels& kernels() {
  static const CrossEntropyKernels& best = cross_entropy_kernels(best_cpu_isa());
  return best;
}

// The two passes are operators of libtorch's dispatcher, so that whatever records a step below
// autograd sees them too.

int64_t size_of(LabelKind kind) {
  switch (kind) {
    case kLabelInt64:
      return sizeof(int64_t);
    case kLabelInt32:
      return sizeof(int32_t);
    case kLabelUint8:
      return sizeof(uint8_t);
  }
  return 0;
}

template <typename T>
int64_t forward(const CrossEntropyArguments<T>& arguments) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels().forward_f32(arguments);
  } else {
    return kernels().forward_f64(arguments);
  }
}

/// Rows that are worth a part of their own.
int64_t rows_of_part(int64_t classes) {
  return std::max<int64_t>(1, strata::kernels::kPartElements / (2 * classes));
}

/// The same on the replica's threads. A row's bits depend on the row alone.
template <typename T>
int64_t forward_in_parts(const CrossEntropyArguments<T>& all) {
  std::atomic<int64_t> first_bad = all.rows;
  strata::kernels::parallel_for(
      0, all.rows, rows_of_part(all.classes), [&](int64_t begin, int64_t end) {
        CrossEntropyArguments<T> part = all;
        part.logits += begin * all.classes;
        part.labels = static_cast<const char*>(all.labels) + begin * size_of(all.label_kind);
        part.rows = end - begin;
        part.losses += begin;
        if (part.difference != nullptr) part.difference += begin * all.classes;
        const int64_t bad = forward(part);
        if (bad < 0) return;
        int64_t known = first_bad;
        while (begin + bad < known && !first_bad.compare_exchange_weak(known, begin + bad)) {
        }
      });
  return first_bad == all.rows ? -1 : first_bad.load();
}

LabelKind kind_of(const at::Tensor& labels) {
  switch (labels.scalar_type()) {
    case at::kLong:
      return kLabelInt64;
    case at::kInt:
      return kLabelInt32;
    default:
      STRATA_DCHECK(labels.scalar_type() == at::kByte);
      return kLabelUint8;
  }
}

template <typename T>
void run_forward(const at::Tensor& logits, const at::Tensor& labels,
                 std::optional<int64_t> ignore_class, at::Tensor& losses, at::Tensor* difference) {
  CrossEntropyArguments<T> arguments;
  arguments.logits = logits.const_data_ptr<T>();
  arguments.labels = labels.const_data_ptr();
  arguments.label_kind = kind_of(labels);
  arguments.rows = labels.numel();
  arguments.classes = logits.size(-1);
  arguments.ignores = ignore_class.has_value();
  arguments.ignored_label = ignore_class.value_or(0);
  arguments.losses = losses.mutable_data_ptr<T>();
  arguments.difference = difference == nullptr ? nullptr : difference->mutable_data_ptr<T>();
  const int64_t bad = forward_in_parts(arguments);
  if (bad >= 0) throw_bad_label(labels, bad, arguments.classes);
}

void run_forward(const at::Tensor& logits, const at::Tensor& labels,
                 std::optional<int64_t> ignore_class, at::Tensor& losses, at::Tensor* difference) {
  if (logits.scalar_type() == at::kFloat) {
    run_forward<float>(logits, labels, ignore_class, losses, difference);
  } else {
    run_forward<double>(logits, labels, ignore_class, losses, difference);
  }
}

std::tuple<at::Tensor, at::Tensor> forward_cpu(const at::Tensor& logits, const at::Tensor& labels,
                                               std::optional<int64_t> ignore_class,
                                               bool wants_difference) {
  const auto x = logits.expect_contiguous();
  const auto y = labels.expect_contiguous();
  at::Tensor losses = at::cpu::empty(labels.sizes(), logits.options());
  at::Tensor difference =
      at::cpu::empty(wants_difference ? logits.sizes() : at::IntArrayRef{0}, logits.options());
  run_forward(*x, *y, ignore_class, losses, wants_difference ? &difference : nullptr);
  return {std::move(losses), std::move(difference)};
}

template <typename T>
void run_backward(const at::Tensor& difference, const at::Tensor& scale, int64_t stride,
                  at::Tensor& out) {
  const int64_t classes = difference.size(-1);
  const int64_t rows = scale.numel();
  const T* const from = difference.const_data_ptr<T>();
  T* const to = out.mutable_data_ptr<T>();
  const T* const factors = scale.const_data_ptr<T>();
  strata::kernels::parallel_for(0, rows, rows_of_part(classes), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * classes;
    const T* const factor = factors + begin * stride;
    if constexpr (std::is_same_v<T, float>) {
      kernels().backward_f32(from + first, factor, stride, end - begin, classes, to + first);
    } else {
      kernels().backward_f64(from + first, factor, stride, end - begin, classes, to + first);
    }
  });
}

void scale_rows_into(const at::Tensor& difference, const at::Tensor& scale, at::Tensor& out) {
  // The gradient of a sum is one number, expanded: all strides 0.
  bool one_number = true;
  for (int64_t d = 0; d < scale.dim(); ++d)
    one_number = one_number && (scale.stride(d) == 0 || scale.size(d) == 1);
  const auto s =
      one_number ? c10::MaybeOwned<at::Tensor>::borrowed(scale) : scale.expect_contiguous();
  if (difference.scalar_type() == at::kFloat) {
    run_backward<float>(difference, *s, one_number ? 0 : 1, out);
  } else {
    run_backward<double>(difference, *s, one_number ? 0 : 1, out);
  }
}

at::Tensor& scale_rows_cpu_(at::Tensor& difference, const at::Tensor& scale) {
  scale_rows_into(difference, scale, difference);
  return difference;
}

at::Tensor scale_rows_cpu(const at::Tensor& difference, const at::Tensor& scale) {
  at::Tensor out = at::cpu::empty(difference.sizes(), difference.options());
  scale_rows_into(difference, scale, out);
  return out;
}

// In a replay, whose results have memory.

bool forward_into(const graph::DirectCall& call) {
  const at::Tensor& logits = call.tensor(0);
  const at::Tensor& labels = call.tensor(1);
  const c10::IValue& ignored = call.number(2);
  at::Tensor losses = call.result(0);
  at::Tensor difference = call.result(1);
  if (!call.number(3).toBool() || !logits.is_contiguous() || !labels.is_contiguous() ||
      !losses.defined() || !losses.is_contiguous() || !difference.defined() ||
      !difference.is_contiguous()) {
    return false;
  }
  run_forward(logits, labels, ignored.isNone() ? std::nullopt : std::optional(ignored.toInt()),
              losses, &difference);
  return true;
}

bool scale_rows_in_place(const graph::DirectCall& call) {
  at::Tensor difference = call.tensor(0);
  if (!difference.is_contiguous()) return false;
  scale_rows_into(difference, call.tensor(1), difference);
  return true;
}

bool scale_rows_apart(const graph::DirectCall& call) {
  at::Tensor out = call.result(0);
  if (!call.tensor(0).is_contiguous() || !out.is_contiguous()) return false;
  scale_rows_into(call.tensor(0), call.tensor(1), out);
  return true;
}

const graph::DirectKernelRegistration of_cross_entropy("strata::softmax_cross_entropy",
                                                       {.kernel = forward_into});
const graph::DirectKernelRegistration of_scale_rows_("strata::scale_rows_",
                                                     {.kernel = scale_rows_in_place});
const graph::DirectKernelRegistration of_scale_rows("strata::scale_rows",
                                                    {.kernel = scale_rows_apart});

// The same by libtorch's operators, for what records or lowers a step.

std::tuple<at::Tensor, at::Tensor> forward_of_libtorch(const at::Tensor& logits,
                                                       const at::Tensor& labels,
                                                       std::optional<int64_t> ignore_class,
                                                       bool wants_difference) {
  const at::Tensor index = labels.to(at::kLong).unsqueeze(-1);
  const at::Tensor ignored = ignore_class ? index == *ignore_class
                                          : at::zeros_like(index, index.options().dtype(at::kBool));
  const at::Tensor label = index.masked_fill(ignored, 0);
  const at::Tensor logarithms = at::log_softmax(logits, -1);
  at::Tensor losses = -logarithms.gather(-1, label).masked_fill(ignored, 0).squeeze(-1);
  if (!wants_difference) return {std::move(losses), at::empty({0}, logits.options())};
  const at::Tensor minus_one = at::full_like(label, -1, logits.options());
  return {std::move(losses),
          logarithms.exp().scatter_add(-1, label, minus_one).masked_fill(ignored, 0)};
}

at::Tensor scale_rows_of_libtorch(const at::Tensor& difference, const at::Tensor& scale) {
  return difference * scale.unsqueeze(-1);
}

at::Tensor& scale_rows_of_libtorch_(at::Tensor& difference, const at::Tensor& scale) {
  return difference.mul_(scale.unsqueeze(-1));
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "softmax_cross_entropy(Tensor logits, Tensor labels, int? ignore_class, bool "
      "wants_difference)"
      " -> (Tensor, Tensor)");
  library.def("scale_rows(Tensor difference, Tensor scale) -> Tensor");
  library.def("scale_rows_(Tensor(a!) difference, Tensor scale) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("softmax_cross_entropy", forward_cpu);
  library.impl("scale_rows", scale_rows_cpu);
  library.impl("scale_rows_", scale_rows_cpu_);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("softmax_cross_entropy", forward_of_libtorch);
  library.impl("scale_rows", scale_rows_of_libtorch);
  library.impl("scale_rows_", scale_rows_of_libtorch_);
}

struct NoSecondDerivative final : Node {
  variable_list apply(variable_list&&) override {
    detail::throw_error(
        ErrorCode::kUnimplemented,
        "[losses] sparse_categorical_crossentropy: got a second differentiation; it has one "
        "derivative only (categorical_crossentropy with one-hot labels has all)");
  }
  std::string name() const override { return "SparseCategoricalCrossentropyBackwardBackward"; }
};

struct SparseCategoricalCrossentropyBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    if (!difference.defined()) throw std::runtime_error(torch::autograd::ERR_BACKWARD_TWICE);
    at::Tensor result;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      static const auto scale_rows =
          kernels::find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>(
              "strata::scale_rows");
      static const auto scale_rows_ =
          kernels::find_operator<at::Tensor&(at::Tensor&, const at::Tensor&)>(
              "strata::scale_rows_");
      if (may_overwrite) {
        result = std::move(difference);
        scale_rows_.call(result, gradients[0]);
      } else {
        result = scale_rows.call(difference, gradients[0]);
      }
    }
    if (at::GradMode::is_enabled()) {
      auto node = make_node<NoSecondDerivative>();
      torch::autograd::edge_list edges = torch::autograd::collect_next_edges(gradients[0]);
      edges.push_back(next_edge(0));
      node->set_next_edges(std::move(edges));
      torch::autograd::set_history(result, node);
    }
    return {std::move(result)};
  }
  // Called before apply if release_variables comes after it: then no other owner needs
  // `difference`.
  void will_release_variables() override { may_overwrite = true; }
  void release_variables() override { difference.reset(); }
  std::string name() const override { return "SparseCategoricalCrossentropyBackward"; }

  at::Tensor difference;
  bool may_overwrite = false;
};

}  // namespace

bool has_fused_cross_entropy(const at::Tensor& logits) {
  return logits.is_cpu() && logits.layout() == at::kStrided &&
         (logits.scalar_type() == at::kFloat || logits.scalar_type() == at::kDouble);
}

at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                 std::optional<int64_t> ignore_class) {
  static const auto operation = kernels::find_operator<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, std::optional<int64_t>, bool)>(
      "strata::softmax_cross_entropy");
  const bool differentiable = at::GradMode::is_enabled() && logits.requires_grad();
  at::Tensor losses, difference;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::tie(losses, difference) = operation.call(logits, labels, ignore_class, differentiable);
  }
  if (differentiable) {
    auto node = make_node<SparseCategoricalCrossentropyBackward>();
    node->difference = std::move(difference);
    node->set_next_edges(torch::autograd::collect_next_edges(logits));
    torch::autograd::set_history(losses, node);
  }
  return losses;
}

}  // namespace strata::losses
