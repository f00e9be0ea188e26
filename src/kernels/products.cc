#include "kernels/products.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/cpu_isa.h"
#include "kernels/kernel_choice.h"
#include "kernels/kernel_threads.h"
#include "kernels/portable/portable_bits.h"
#include "kernels/scratch.h"

namespace strata::kernels {

const MatmulKernels& matmul_kernels(CpuIsa isa) { return STRATA_KERNELS_FOR(isa, matmul_kernels); }

const SparseKernels& sparse_product(CpuIsa isa) { return STRATA_KERNELS_FOR(isa, sparse_product); }

bool use_own_matmul() {
  static const bool some = runs_own_of("matmul");
  return some || portable_bits();
}

bool leave_out_zeros() {
  static const bool wanted = [] {
    const char* const value = std::getenv("STRATA_MATMUL");
    return value == nullptr || std::string_view(value) != "dense";
  }();
  return wanted;
}

bool runs_here(KernelClass id) { return runs_own(id) || portable_bits(); }

namespace {

bool lies_by_columns(const MatrixView& view) {
  return view.row_stride == 1 && view.column_stride != 1;
}

}  // namespace

bool is_cpu_float(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided;
}

at::Tensor empty_float(at::IntArrayRef sizes) { return at::detail::empty_cpu(sizes, at::kFloat); }

std::optional<std::pair<int64_t, int64_t>> unit_strides(const at::Tensor& tensor) {
  const int64_t dim = tensor.dim();
  int64_t row_stride = tensor.stride(dim - 2);
  int64_t column_stride = tensor.stride(dim - 1);
  // The stride of a dimension of size 1 means nothing.
  if (tensor.size(dim - 1) == 1 && row_stride != 1) column_stride = 1;
  if (tensor.size(dim - 2) == 1 && column_stride != 1) row_stride = 1;
  if (row_stride != 1 && column_stride != 1) return std::nullopt;
  return std::pair(row_stride, column_stride);
}

std::optional<MatrixView> matrix_view(const at::Tensor& tensor) {
  const auto strides = unit_strides(tensor);
  if (!strides) return std::nullopt;
  return MatrixView{tensor.const_data_ptr<float>(), strides->first, strides->second};
}

std::optional<Matrix> matrix_of(const at::Tensor& tensor) {
  if (tensor.dim() != 2 || !is_cpu_float(tensor)) return std::nullopt;
  const auto view = matrix_view(tensor);
  if (!view) return std::nullopt;
  return Matrix{tensor.size(0), tensor.size(1), *view};
}

/// Products with a vector are bound by memory, and libtorch has kernels for them.
bool worthwhile_product(int64_t m, int64_t n, int64_t k) { return m >= 4 && n >= 4 && k >= 2; }

void multiply_dense_here(const MatmulProblem& problem) {
  // A thread's small products share memory, which stays in its caches.
  constexpr int64_t kKeptFloats = 1 << 18;
  thread_local KeptScratch kept;
  static const MatmulKernels& kernels = matmul_kernels(best_cpu_isa());
  if (kernels.scratch_floats(problem) <= kKeptFloats) return multiply_dense_here(problem, kept);
  KeptScratch scratch;
  multiply_dense_here(problem, scratch);
}

void multiply_dense_here(const MatmulProblem& problem, KeptScratch& scratch) {
  static const MatmulKernels& kernels = matmul_kernels(best_cpu_isa());
  kernels.multiply(problem, scratch.at_least(kernels.scratch_floats(problem)));
}

void multiply_here(const MatmulProblem& problem) {
  static const SparseKernels& kernels = sparse_product(best_cpu_isa());
  const SparsePlan sparse = leave_out_zeros() ? kernels.plan(problem) : SparsePlan{};
  if (sparse.worthwhile) {
    const Scratch scratch(sparse.scratch_floats);
    if (kernels.multiply(problem, sparse, scratch.data())) return;
  }
  multiply_dense_here(problem);
}

void multiply_here(const Bf16Problem& problem) {
  static const SparseKernels& sparse_kernels = sparse_product(best_cpu_isa());
  static const MatmulKernels& kernels = matmul_kernels(best_cpu_isa());
  const SparsePlan sparse = leave_out_zeros() ? sparse_kernels.plan_bf16(problem) : SparsePlan{};
  if (sparse.worthwhile) {
    const Scratch scratch(sparse.scratch_floats);
    if (sparse_kernels.multiply_bf16(problem, sparse, scratch.data())) return;
  }
  const Scratch scratch(kernels.bf16_scratch_floats(problem));
  kernels.multiply_bf16(problem, scratch.data());
}

namespace {

void multiply(const MatmulProblem& problem) {
  if (problem.m * problem.n * problem.k < 2 * kPartMultiplications || num_kernel_threads() == 1) {
    multiply_here(problem);
    return;
  }
  // Any division of the rows or columns gives the same bits. Parts are whole panels of 64.
  constexpr int64_t kPart = 64;
  const bool by_columns = problem.n >= problem.m;
  const int64_t size = by_columns ? problem.n : problem.m;
  const int64_t work = kPart * problem.k * (by_columns ? problem.m : problem.n);
  parallel_for(0, (size + kPart - 1) / kPart, std::max<int64_t>(1, kPartMultiplications / work),
               [&](int64_t begin, int64_t end) {
                 const int64_t from = begin * kPart;
                 const int64_t count = std::min(size, end * kPart) - from;
                 MatmulProblem part = problem;
                 if (by_columns) {
                   part.n = count;
                   part.b.data += from * part.b.column_stride;
                   part.c += from;
                   if (part.bias != nullptr) part.bias += from;
                 } else {
                   part.m = count;
                   part.a.data += from * part.a.row_stride;
                   part.c += from * part.c_stride;
                 }
                 multiply_here(part);
               });
}

}  // namespace

bool takes_product(const std::optional<Matrix>& a, const std::optional<Matrix>& b) {
  if (!a || !b || a->columns != b->rows) return false;
  const bool transposed = lies_by_columns(a->view) || lies_by_columns(b->view);
  return worthwhile_product(a->rows, b->columns, a->columns) &&
         runs_here(matmul_class(a->rows, b->columns, a->columns, transposed));
}

void product_into(const Matrix& a, const Matrix& b, const float* bias, float* c) {
  multiply({a.rows, b.columns, a.columns, a.view, b.view, bias, c, b.columns});
}

std::optional<at::Tensor> own_product(const std::optional<Matrix>& a,
                                      const std::optional<Matrix>& b, const float* bias) {
  if (!takes_product(a, b)) return std::nullopt;
  at::Tensor c = empty_float({a->rows, b->columns});
  product_into(*a, *b, bias, c.mutable_data_ptr<float>());
  return c;
}

}  // namespace strata::kernels
