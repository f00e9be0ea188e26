// Operators whose results are written where a plan has put them, in place of memory of their own: for
// small steps, where a tensor that is made takes as long as what is computed.
#include "graph/direct_kernels.h"

#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/threshold_backward_cpu_dispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <map>

#include "core/mutex.h"
#include "kernels/dispatch_key.h"
#include "kernels/into.h"
#include "kernels/portable/portable_bits.h"

namespace strata::graph {
namespace {

// Of replica functions.

bool mm_of_replicas(const DirectCall& call) {
  return kernels::mm_into(call.tensor(0), call.tensor(1), call.result(0));
}

bool addmm_of_replicas(const DirectCall& call) {
  return kernels::addmm_into(call.tensor(0), call.tensor(1), call.tensor(2),
                             call.number(3).toScalar(), call.number(4).toScalar(), call.result(0));
}

bool relu_of_replicas(const DirectCall& call) {
  return kernels::relu_into(call.tensor(0), call.result(0));
}

bool threshold_of_replicas(const DirectCall& call) {
  return kernels::threshold_backward_into(call.tensor(0), call.tensor(1), call.number(2).toScalar(),
                                          call.result(0));
}

/// threshold_backward.grad_input, which autograd calls over the gradient.
bool threshold_in_place(const DirectCall& call) {
  return call.tensor(3).is_same(call.tensor(0)) &&
         kernels::threshold_backward_into(call.tensor(0), call.tensor(1), call.number(2).toScalar(),
                                          call.tensor(0));
}

bool addmm_backward_into(const DirectCall& call) {
  return kernels::addmm_backward_into(call.tensor(0), call.optional_tensor(1),
                                      call.optional_tensor(2), call.number(3).toBool(),
                                      call.result(0), call.result(1), call.result(2));
}

// libtorch's, whose results' memory does not change a bit.

bool mm_of_libtorch(const DirectCall& call) {
  at::Tensor out = call.result(0);
  at::cpu::mm_out(out, call.tensor(0), call.tensor(1));
  return true;
}

bool addmm_of_libtorch(const DirectCall& call) {
  at::Tensor out = call.result(0);
  at::cpu::addmm_out(out, call.tensor(0), call.tensor(1), call.tensor(2), call.number(3).toScalar(),
                     call.number(4).toScalar());
  return true;
}

bool add_into(const DirectCall& call) {
  at::Tensor out = call.result(0);
  at::cpu::add_out(out, call.tensor(0), call.tensor(1), call.number(2).toScalar());
  return true;
}

bool sub_into(const DirectCall& call) {
  at::Tensor out = call.result(0);
  at::cpu::sub_out(out, call.tensor(0), call.tensor(1), call.number(2).toScalar());
  return true;
}

bool mul_into(const DirectCall& call) {
  at::Tensor out = call.result(0);
  at::cpu::mul_out(out, call.tensor(0), call.tensor(1));
  return true;
}

bool div_into(const DirectCall& call) {
  at::Tensor out = call.result(0);
  at::cpu::div_out(out, call.tensor(0), call.tensor(1));
  return true;
}

template <typename T>
bool fill_result(const at::Tensor& tensor, T value) {
  std::fill_n(tensor.mutable_data_ptr<T>(), tensor.numel(), value);
  return true;
}

/// Of few elements: the gradient of a loss.
bool fill_result(const at::Tensor& tensor, int value) {
  if (!tensor.is_non_overlapping_and_dense()) return false;
  if (tensor.scalar_type() == at::kFloat) return fill_result(tensor, static_cast<float>(value));
  return tensor.scalar_type() == at::kDouble && fill_result(tensor, static_cast<double>(value));
}
bool ones_like_into(const DirectCall& call) { return fill_result(call.result(0), 1); }
bool zeros_like_into(const DirectCall& call) { return fill_result(call.result(0), 0); }

/// For the program's life.
struct DirectKernels {
  Mutex mutex;
  std::multimap<std::string_view, DirectRow> rows STRATA_GUARDED_BY(mutex);

  static DirectKernels& all() {
    static auto* const kernels = new DirectKernels();
    return *kernels;
  }

  // Not checked: no other thread has it yet.
  DirectKernels() STRATA_NO_THREAD_SAFETY_ANALYSIS
      : rows({{"aten::mm", {mm_of_replicas, true}},
              {"aten::mm", {mm_of_libtorch}},
              {"aten::addmm", {addmm_of_replicas, true}},
              {"aten::addmm", {addmm_of_libtorch}},
              {"aten::relu", {relu_of_replicas, true}},
              {"aten::threshold_backward", {threshold_of_replicas, true}},
              {"aten::threshold_backward.grad_input", {threshold_in_place, true}},
              {"strata::addmm_backward", {addmm_backward_into}},
              {"aten::ones_like", {ones_like_into}},
              {"aten::zeros_like", {zeros_like_into}},
              {"aten::add.Tensor", {add_into}},
              {"aten::sub.Tensor", {sub_into}},
              {"aten::mul.Tensor", {mul_into}},
              {"aten::div.Tensor", {div_into}}}) {}
};

}  // namespace

void register_direct_kernel(std::string_view name, const DirectRow& row) {
  DirectKernels& kernels = DirectKernels::all();
  const MutexLock lock(kernels.mutex);
  kernels.rows.emplace(name, row);
}

DirectKernel direct_kernel(std::string_view name) {
  if (kernels::portable_bits()) return nullptr;
  const bool in_replica = c10::impl::tls_is_dispatch_key_included(kernels::kReplicaKey);
  DirectKernels& kernels = DirectKernels::all();
  const MutexLock lock(kernels.mutex);
  const auto [begin, end] = kernels.rows.equal_range(name);
  const bool some_of_replicas =
      std::any_of(begin, end, [](const auto& row) { return row.second.of_replicas; });
  for (auto each = begin; each != end; ++each) {
    if (each->second.of_replicas == (some_of_replicas && in_replica)) return each->second.kernel;
  }
  return nullptr;
}

}  // namespace strata::graph
