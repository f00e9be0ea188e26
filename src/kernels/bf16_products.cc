// Which kernel multiplies matrices of bfloat16, and in which parts.
#include "kernels/bf16_products.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/cpu_isa.h"
#include "kernels/bf16_matmul_kernels.h"
#include "kernels/bf16_tensor.h"
#include "kernels/kernel_threads.h"
#include "kernels/products.h"
#include "kernels/scratch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace strata::kernels {
namespace {

/// Whether the processor has it and this process may use it: the registers are large, so Linux wants to be asked.
bool has_amx_bf16() {
#if defined(__x86_64__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kRegisters = 18;              // XFEATURE_XTILEDATA
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 22 & 1) != 0 &&
         ::syscall(SYS_arch_prctl, kRequestPermission, kRegisters) == 0;
#else
  return false;
#endif
}

bool has_avx512_bf16() {
#if defined(__x86_64__)
  return best_cpu_isa() == CpuIsa::kAvx512 && __builtin_cpu_supports("avx512bf16") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
  return false;
#endif
}

/// The last two dimensions, if rows or columns are contiguous.
std::optional<Bf16View> bf16_view(const at::Tensor& tensor) {
  const auto strides = unit_strides(tensor);
  if (!strides) return std::nullopt;
  return Bf16View{bf16_data(tensor), strides->first, strides->second};
}

using Multiply = void (*)(const Bf16Problem& problem);

/// With AVX512_BF16.
void multiply_pairs_here(const Bf16Problem& problem) {
#if defined(__x86_64__)
  const Scratch scratch(bf16_scratch_floats(problem));
  bf16_matmul_avx512(problem, scratch.data());
#else
  static_cast<void>(problem);
#endif
}

/// With AMX.
void multiply_amx_here(const Bf16Problem& problem) {
#if defined(__x86_64__)
  const Scratch scratch(bf16_amx_scratch_floats(problem));
  bf16_matmul_amx(problem, scratch.data());
#else
  static_cast<void>(problem);
#endif
}

/// In parts, on several threads if that is worth it.
void multiply_bf16(const Bf16Problem& problem, Multiply here) {
  if (problem.m * problem.n * problem.k < 4 * kPartMultiplications || num_kernel_threads() == 1) {
    return here(problem);
  }
  // Any division of the rows or columns gives the same bits. Parts are whole panels of 64.
  constexpr int64_t kPart = 64;
  const bool by_columns = problem.n >= problem.m;
  const int64_t size = by_columns ? problem.n : problem.m;
  const int64_t work = kPart * problem.k * (by_columns ? problem.m : problem.n);
  parallel_for(0, (size + kPart - 1) / kPart, std::max<int64_t>(1, 2 * kPartMultiplications / work),
               [&](int64_t begin, int64_t end) {
                 const int64_t from = begin * kPart;
                 const int64_t count = std::min(size, end * kPart) - from;
                 Bf16Problem part = problem;
                 int64_t to = from;
                 if (by_columns) {
                   part.n = count;
                   part.b.data += from * part.b.column_stride;
                   if (part.bias != nullptr) part.bias += from;
                 } else {
                   part.m = count;
                   part.a.data += from * part.a.row_stride;
                   to = from * part.c_stride;
                 }
                 (part.c != nullptr ? static_cast<void>(part.c += to)
                                    : static_cast<void>(part.c_float += to));
                 here(part);
               });
}

bool same_inner_sizes(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() != b.dim() || (a.dim() != 2 && a.dim() != 3)) return false;
  return a.size(-1) == b.size(-2) && (a.dim() == 2 || a.size(0) == b.size(0));
}

}  // namespace

namespace detail {

Bf16Products bf16_products_for(bool has_amx, bool has_avx512_bf16, bool own_products) {
  if (has_amx) {
    return own_products && has_avx512_bf16 ? Bf16Products::kAmx : Bf16Products::kEngine;
  }
  if (!own_products) return Bf16Products::kFloatCopy;
  return has_avx512_bf16 ? Bf16Products::kOwn : Bf16Products::kOwnFloat;
}

at::Tensor product_of_floats(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                             at::ScalarType result) {
  const at::Tensor x = a.to(at::kFloat);
  const at::Tensor y = b.to(at::kFloat);
  return (bias.defined() ? at::addmm(bias.to(at::kFloat), x, y) : at::matmul(x, y)).to(result);
}

std::optional<at::Tensor> own_bf16_product(const at::Tensor& a, const at::Tensor& b,
                                           const at::Tensor& bias, at::ScalarType result,
                                           Bf16Products way) {
  const auto a_view = bf16_view(a);
  const auto b_view = bf16_view(b);
  if (!a_view || !b_view) return std::nullopt;
  const int64_t m = a.size(-2);
  const int64_t n = b.size(-1);
  const int64_t k = a.size(-1);
  const int64_t batches = a.dim() == 3 ? a.size(0) : 1;
  const at::Tensor c = a.dim() == 3 ? at::detail::empty_cpu({batches, m, n}, result)
                                    : at::detail::empty_cpu({m, n}, result);
  const at::Tensor float_bias = bias.defined() ? bias.to(at::kFloat).contiguous() : at::Tensor();
  Bf16Problem problem{
      .m = m,
      .n = n,
      .k = k,
      .a = *a_view,
      .b = *b_view,
      .bias = float_bias.defined() ? float_bias.const_data_ptr<float>() : nullptr,
      .c = result == at::kFloat ? nullptr : static_cast<uint16_t*>(c.mutable_data_ptr()),
      .c_float = result == at::kFloat ? c.mutable_data_ptr<float>() : nullptr,
      .c_stride = n};
  const Multiply widening = multiply_here;
  const Multiply here = way == Bf16Products::kAmx   ? multiply_amx_here
                        : way == Bf16Products::kOwn ? multiply_pairs_here
                                                    : widening;
  if (a.dim() == 2) {
    multiply_bf16(problem, here);
    return c;
  }
  parallel_for(0, batches, std::max<int64_t>(1, 2 * kPartMultiplications / (m * n * k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   Bf16Problem part = problem;
                   part.a.data += i * a.stride(0);
                   part.b.data += i * b.stride(0);
                   if (part.c != nullptr) {
                     part.c += i * m * n;
                   } else {
                     part.c_float += i * m * n;
                   }
                   here(part);
                 }
               });
  return c;
}

}  // namespace detail

Bf16Products bf16_products() {
  static const Bf16Products chosen =
      detail::bf16_products_for(has_amx_bf16(), has_avx512_bf16(), use_own_matmul());
  return chosen;
}

std::optional<at::Tensor> bf16_product(const at::Tensor& a, const at::Tensor& b,
                                       const at::Tensor& bias, at::ScalarType result) {
  if (!takes_bfloat16(a) || !is_cpu_bfloat16(b) || !same_inner_sizes(a, b)) return std::nullopt;
  if (a.numel() == 0 || b.numel() == 0) return std::nullopt;
  switch (bf16_products()) {
    case Bf16Products::kEngine:
      return std::nullopt;
    case Bf16Products::kAmx:
    case Bf16Products::kOwn:
    case Bf16Products::kOwnFloat: {
      const Bf16Products way = bf16_products();
      if (auto own = detail::own_bf16_product(a, b, bias, result, way)) return own;
      return detail::own_bf16_product(a.contiguous(), b.contiguous(), bias, result, way);
    }
    case Bf16Products::kFloatCopy:
      return detail::product_of_floats(a, b, bias, result);
  }
  return std::nullopt;
}

}  // namespace strata::kernels
