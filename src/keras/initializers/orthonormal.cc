#include "keras/initializers/orthonormal.h"

#include <cmath>
#include <cstdint>

namespace strata::initializers {
namespace {

double dot(const double* a, const double* b, int64_t size) {
  double total = 0;
  for (int64_t i = 0; i < size; ++i) total += a[i] * b[i];
  return total;
}

}  // namespace

at::Tensor orthonormal_columns(const at::Tensor& matrix) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  // Columns side by side.
  at::Tensor q = matrix.t().to(at::kDouble).contiguous().clone();
  double* const data = q.mutable_data_ptr<double>();
  for (int64_t c = 0; c < columns; ++c) {
    double* const column = data + c * rows;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t before = 0; before < c; ++before) {
        const double* const other = data + before * rows;
        const double part = dot(column, other, rows);
        for (int64_t i = 0; i < rows; ++i) column[i] -= part * other[i];
      }
    }
    const double length = std::sqrt(dot(column, column, rows));
    for (int64_t i = 0; i < rows; ++i) column[i] /= length;
  }
  return q.t().to(matrix.scalar_type());
}

}  // namespace strata::initializers
