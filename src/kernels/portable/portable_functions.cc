// Elementary functions with the same bits on all processors.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "kernels/activation_kernels.h"
#include "kernels/kernel_threads.h"
#include "kernels/portable/portable_kernels.h"
#include "kernels/portable/register_portable.h"

namespace strata::kernels::portable {
namespace {

/// Finds a function's kernel for this processor.
using Find = PortableFunction (*)();
PortableFunction find_exp() { return portable_kernels().exp; }
PortableFunction find_log() { return portable_kernels().log; }
PortableFunction find_erf() { return portable_kernels().erf; }
PortableFunction find_tanh() { return activation_kernels().tanh; }
PortableFunction find_sigmoid() { return activation_kernels().sigmoid; }

/// A function and its name, for templates.
template <size_t kSize>
struct Name {
  constexpr Name(const char (&text)[kSize]) { std::copy_n(text, kSize, value); }  // NOLINT
  char value[kSize];
};

void apply(PortableFunction run, const at::Tensor& x, at::Tensor& out) {
  const float* const from = x.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  parallel_for(0, x.numel(), kPartElements,
               [&](int64_t begin, int64_t end) { run(from + begin, end - begin, to + begin); });
}

/// In one piece of memory: as it is, or a copy.
at::Tensor dense_float(const at::Tensor& x, const char* name) {
  const at::Tensor y = at::isIntegralType(x.scalar_type(), true) ? x.to(at::kFloat) : x;
  if (!y.is_cpu() || y.layout() != at::kStrided || y.scalar_type() != at::kFloat) {
    refuse_operator(std::string("aten::") + name);
  }
  return y.is_non_overlapping_and_dense() ? y : y.contiguous();
}

template <Find kFind, Name kName>
at::Tensor value_of(const at::Tensor& x) {
  const at::Tensor y = dense_float(x, kName.value);
  at::Tensor out = at::empty_like(y);
  apply(kFind(), y, out);
  return out;
}

template <Find kFind, Name kName>
at::Tensor& replace(at::Tensor& x) {
  const at::Tensor y = dense_float(x, kName.value);
  if (y.is_same(x)) {
    apply(kFind(), x, x);
    return x;
  }
  return x.copy_(value_of<kFind, kName>(y));
}

template <Find kFind, Name kName>
at::Tensor& write(const at::Tensor& x, at::Tensor& out) {
  const at::Tensor y = value_of<kFind, kName>(x);
  return out.resize_(y.sizes()).copy_(y);
}

template <Find kFind, Name kName>
void register_function(torch::Library& library) {
  const std::string name = kName.value;
  library.impl(name.c_str(), TORCH_FN((value_of<kFind, kName>)));
  library.impl((name + "_").c_str(), TORCH_FN((replace<kFind, kName>)));
  library.impl((name + ".out").c_str(), TORCH_FN((write<kFind, kName>)));
}

}  // namespace

void register_functions(torch::Library& library) {
  register_function<find_exp, "exp">(library);
  register_function<find_log, "log">(library);
  register_function<find_tanh, "tanh">(library);
  register_function<find_sigmoid, "sigmoid">(library);
  register_function<find_erf, "erf">(library);
}

}  // namespace strata::kernels::portable
