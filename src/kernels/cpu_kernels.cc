#include "strata/kernels/cpu_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/cpu_isa.h"
#include "kernels/bf16_products.h"
#include "kernels/bf16_tensor.h"
#include "kernels/convolution.h"
#include "kernels/dispatch_key.h"
#include "kernels/fixed_parts.h"
#include "kernels/into.h"
#include "kernels/kernel_choice.h"
#include "kernels/kernel_threads.h"
#include "kernels/products.h"
#include "kernels/registration.h"
#include "strata/core/str_cat.h"

namespace strata::kernels {
namespace {

at::Tensor mm(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b) {
  if (auto c = own_product(matrix_of(a), matrix_of(b))) return *std::move(c);
  if (auto c = bf16_product(a, b)) return *std::move(c);
  if (auto c = mm_in_parts(a, b)) return *std::move(c);
  return at::_ops::mm::redispatch(keys & kBelowReplicaKey, a, b);
}

/// bias + a b, a row of the bias for each of the result.
bool is_plain_addmm(const at::Tensor& bias, const at::Tensor& b, const at::Scalar& beta,
                    const at::Scalar& alpha) {
  return is_cpu_float(bias) && bias.dim() == 1 && b.dim() == 2 && bias.size(0) == b.size(1) &&
         bias.stride(0) == 1 && beta.equal(1) && alpha.equal(1);
}

at::Tensor addmm(c10::DispatchKeySet keys, const at::Tensor& bias, const at::Tensor& a,
                 const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha) {
  if (is_plain_addmm(bias, b, beta, alpha)) {
    const float* const row = bias.const_data_ptr<float>();
    if (auto c = own_product(matrix_of(a), matrix_of(b), row)) return *std::move(c);
  }
  const bool half = is_cpu_bfloat16(bias) && bias.dim() == 1 && b.dim() == 2 &&
                    bias.size(0) == b.size(1) && beta.equal(1) && alpha.equal(1);
  if (half) {
    if (auto c = bf16_product(a, b, bias)) return *std::move(c);
  }
  if (auto c = addmm_in_parts(bias, a, b, beta, alpha)) return *std::move(c);
  return at::_ops::addmm::redispatch(keys & kBelowReplicaKey, bias, a, b, beta, alpha);
}

at::Tensor bmm(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b) {
  const auto own = [&]() -> std::optional<at::Tensor> {
    if (!runs_here(KernelClass::kMatmulBatched) || a.dim() != 3 || b.dim() != 3 ||
        !is_cpu_float(a) || !is_cpu_float(b))
      return std::nullopt;
    const int64_t batches = a.size(0);
    const int64_t m = a.size(1);
    const int64_t n = b.size(2);
    const int64_t k = a.size(2);
    if (batches == 0 || b.size(0) != batches || b.size(1) != k || !worthwhile_product(m, n, k))
      return std::nullopt;
    const auto a_view = matrix_view(a);
    const auto b_view = matrix_view(b);
    if (!a_view || !b_view) return std::nullopt;
    at::Tensor c = empty_float({batches, m, n});
    float* const out = c.mutable_data_ptr<float>();
    parallel_for(0, batches, std::max<int64_t>(1, kPartMultiplications / (m * n * k)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     MatmulProblem problem{m, n, k, *a_view, *b_view, nullptr, out + i * m * n, n};
                     problem.a.data += i * a.stride(0);
                     problem.b.data += i * b.stride(0);
                     multiply_here(problem);
                   }
                 });
    return c;
  };
  if (auto c = own()) return *std::move(c);
  if (auto c = bf16_product(a, b)) return *std::move(c);
  if (auto c = bmm_in_parts(a, b)) return *std::move(c);
  return at::_ops::bmm::redispatch(keys & kBelowReplicaKey, a, b);
}

/// As own_product lays its result.
bool lies_as_product(const at::Tensor& result, const Matrix& a, const Matrix& b) {
  return is_cpu_float(result) && result.is_contiguous() && result.dim() == 2 &&
         result.size(0) == a.rows && result.size(1) == b.columns;
}

bool own_product_into(const std::optional<Matrix>& a, const std::optional<Matrix>& b,
                      const float* bias, const at::Tensor& result) {
  if (!takes_product(a, b) || !lies_as_product(result, *a, *b)) return false;
  product_into(*a, *b, bias, result.mutable_data_ptr<float>());
  return true;
}

}  // namespace

bool mm_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result) {
  return own_product_into(matrix_of(a), matrix_of(b), nullptr, result);
}

bool addmm_into(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& result) {
  return is_plain_addmm(bias, b, beta, alpha) &&
         own_product_into(matrix_of(a), matrix_of(b), bias.const_data_ptr<float>(), result);
}

void register_products(torch::Library& library) {
  library.impl("mm", TORCH_FN(mm));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("bmm", TORCH_FN(bmm));
}

void register_cpu_kernels(torch::Library& library) {
  register_products(library);
  register_convolution(library);
  register_relu(library);
  register_max_pool(library);
  register_image_copy(library);
  register_activations(library);
  register_layer_norm(library);
  register_embedding(library);
  register_softmax(library);
  register_attention(library);
}

void register_cpu_nodes(torch::Library& library) {
  register_dense_layer(library);
  register_relu_node(library);
  register_recurrent(library);
}

void use_cpu_kernels() {
  kernel_choice();  // reports a wrong STRATA_KERNELS here rather than in the first product
}

std::string kernel_table_name() {
  static const std::string name = kernel_choice().name();
  return name;
}

std::string describe_cpu_kernels() {
  constexpr const char* kIsaNames[kNumCpuIsas] = {"baseline", "AVX2", "AVX-512"};
  constexpr const char* kBf16Names[] = {"strata (AMX)", "libtorch (AMX)", "strata (AVX512_BF16)",
                                        "strata (float32)", "float copies"};
  const std::string own = str_cat("strata (", kIsaNames[static_cast<int>(best_cpu_isa())], ")");
  return str_cat("matmul: ", use_own_matmul() ? own : "libtorch",
                 use_own_matmul() && !leave_out_zeros() ? ", zeros too" : "",
                 "; bfloat16: ", kBf16Names[static_cast<int>(bf16_products())],
                 "; convolution: ", use_own_convolution() ? own : "libtorch",
                 "; max_pool2d: ", runs_own(KernelClass::kMaxPool) ? own : "libtorch", "; table ",
                 kernel_table_name());
}

}  // namespace strata::kernels
