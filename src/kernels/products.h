#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "kernels/kernel_class.h"
#include "kernels/matmul_kernels.h"
#include "kernels/scratch.h"

namespace strata::kernels {

/// Whether products of float matrices on the CPU are strata's, for some class of shapes: by
/// STRATA_KERNELS, else by the table (kernel_choice.h). Where bits are portable all are.
bool use_own_matmul();
/// Whether strata's kernel runs on this thread for a class: always where bits are portable.
bool runs_here(KernelClass id);
/// Whether they leave zeros out where many of one side's elements are zero.
bool leave_out_zeros();

bool is_cpu_float(const at::Tensor& tensor);
at::Tensor empty_float(at::IntArrayRef sizes);

/// The last two dimensions of a tensor.
struct Matrix {
  int64_t rows;
  int64_t columns;
  MatrixView view;

  Matrix transposed() const {
    return {columns, rows, {view.data, view.column_stride, view.row_stride}};
  }
};

/// The strides of rows and columns of the last two dimensions, if one of them is 1.
std::optional<std::pair<int64_t, int64_t>> unit_strides(const at::Tensor& tensor);

/// The view of the last two dimensions, if rows or columns are contiguous.
std::optional<MatrixView> matrix_view(const at::Tensor& tensor);

/// Of a tensor of two dimensions that own_product may take.
std::optional<Matrix> matrix_of(const at::Tensor& tensor);

/// Whether a product of this size is worth a call.
bool worthwhile_product(int64_t m, int64_t n, int64_t k);

/// On this thread alone.
void multiply_dense_here(const MatmulProblem& problem);
/// The same for many small products.
void multiply_dense_here(const MatmulProblem& problem, KeptScratch& scratch);
/// The same, and zeros are left out where that is worth it. Without row_bias, add and max_block.
void multiply_here(const MatmulProblem& problem);
/// Of bfloat16, without its instructions.
void multiply_here(const Bf16Problem& problem);

/// Whether a b is computed by this library, on this thread.
bool takes_product(const std::optional<Matrix>& a, const std::optional<Matrix>& b);

/// Of a product that takes_product takes: c = a b (+ bias in each row). @param c  Contiguous.
void product_into(const Matrix& a, const Matrix& b, const float* bias, float* c);

/// a b (+ bias in each row), or nothing when libtorch shall do it.
std::optional<at::Tensor> own_product(const std::optional<Matrix>& a,
                                      const std::optional<Matrix>& b, const float* bias = nullptr);

/// The sum of a matrix's rows, of which `view` is the view: a bias's gradient. In dense_layer.cc.
at::Tensor column_sums(const at::Tensor& matrix, const Matrix& view);
/// The same of a matrix of bfloat16, as floats.
at::Tensor bf16_column_sums(const at::Tensor& matrix);

}  // namespace strata::kernels
