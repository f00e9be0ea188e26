// Products with the same bits on all processors: those that kReplicaKey's kernels leave to libtorch
// because of their sizes, their strides or the processor.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "kernels/kernel_threads.h"
#include "kernels/portable/register_portable.h"
#include "kernels/products.h"
#include "strata/core/error.h"

namespace strata::kernels::portable {
namespace {

using at::Tensor;

/// With rows or columns side by side; a copy where neither is.
Tensor operand(const Tensor& x, std::string_view name) {
  if (!is_cpu_float(x)) refuse_operator(name);
  return matrix_view(x) ? x : x.contiguous();
}

/// c[batches, m, n] = a[batches, m, k] b[batches, k, n].
Tensor batched(const Tensor& given_a, const Tensor& given_b, std::string_view name) {
  const Tensor a = operand(given_a, name);
  const Tensor b = operand(given_b, name);
  STRATA_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1),
               kInvalidArgument, "[kernels] ", name, ": got shapes ", a.sizes(), " and ", b.sizes(),
               "; expected [batches, m, k] and [batches, k, n]");
  const int64_t batches = a.size(0), m = a.size(1), k = a.size(2), n = b.size(2);
  if (batches == 0 || m == 0 || n == 0 || k == 0) return at::zeros({batches, m, n}, a.options());
  const MatrixView left = *matrix_view(a), right = *matrix_view(b);
  Tensor c = empty_float({batches, m, n});
  float* const out = c.mutable_data_ptr<float>();
  parallel_for(0, batches, std::max<int64_t>(1, kPartMultiplications / (m * n * k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   MatmulProblem problem{m, n, k, left, right, nullptr, out + i * m * n, n};
                   problem.a.data += i * a.stride(0);
                   problem.b.data += i * b.stride(0);
                   multiply_dense_here(problem);
                 }
               });
  return c;
}

Tensor multiply_matrices(const Tensor& a, const Tensor& b) {
  return batched(a.unsqueeze(0), b.unsqueeze(0), "aten::mm").squeeze(0);
}
Tensor multiply_batches(const Tensor& a, const Tensor& b) { return batched(a, b, "aten::bmm"); }
Tensor mv(const Tensor& a, const Tensor& x) {
  return multiply_matrices(a, x.unsqueeze(1)).squeeze(1);
}
Tensor dot(const Tensor& a, const Tensor& b) {
  return multiply_matrices(a.unsqueeze(0), b.unsqueeze(1)).squeeze();
}

/// beta c + alpha ab; beta 0 leaves a NaN of c out, as in libtorch.
Tensor plus(const Tensor& c, const Tensor& product, const at::Scalar& beta,
            const at::Scalar& alpha) {
  const Tensor scaled = alpha.equal(1) ? product : product * alpha;
  if (beta.equal(0)) return scaled;
  return scaled + (beta.equal(1) ? c : c * beta);
}

Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, const at::Scalar& beta,
             const at::Scalar& alpha) {
  return plus(c, multiply_matrices(a, b), beta, alpha);
}
Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, const at::Scalar& beta,
               const at::Scalar& alpha) {
  return plus(c, multiply_batches(a, b), beta, alpha);
}
Tensor addmv(const Tensor& c, const Tensor& a, const Tensor& x, const at::Scalar& beta,
             const at::Scalar& alpha) {
  return plus(c, mv(a, x), beta, alpha);
}

Tensor& addmm_(Tensor& c, const Tensor& a, const Tensor& b, const at::Scalar& beta,
               const at::Scalar& alpha) {
  return c.copy_(plus(c, multiply_matrices(a, b), beta, alpha));
}
Tensor& baddbmm_(Tensor& c, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  return c.copy_(plus(c, multiply_batches(a, b), beta, alpha));
}
Tensor& addmv_(Tensor& c, const Tensor& a, const Tensor& x, const at::Scalar& beta,
               const at::Scalar& alpha) {
  return c.copy_(plus(c, mv(a, x), beta, alpha));
}
Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  const Tensor c = multiply_matrices(a, b);
  return out.resize_(c.sizes()).copy_(c);
}
Tensor& bmm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  const Tensor c = multiply_batches(a, b);
  return out.resize_(c.sizes()).copy_(c);
}

}  // namespace

void register_products(torch::Library& library) {
  library.impl("mm", TORCH_FN(multiply_matrices));
  library.impl("bmm", TORCH_FN(multiply_batches));
  library.impl("mv", TORCH_FN(mv));
  library.impl("dot", TORCH_FN(dot));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("baddbmm", TORCH_FN(baddbmm));
  library.impl("addmv", TORCH_FN(addmv));
  library.impl("addmm_", TORCH_FN(addmm_));
  library.impl("baddbmm_", TORCH_FN(baddbmm_));
  library.impl("addmv_", TORCH_FN(addmv_));
  library.impl("mm.out", TORCH_FN(mm_out));
  library.impl("bmm.out", TORCH_FN(bmm_out));
}

}  // namespace strata::kernels::portable
