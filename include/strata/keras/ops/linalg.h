#pragma once

#include "strata/keras/ops/call.h"

/// Products and linear algebra.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

inline Value auto matmul(const Value auto& x1, const Value auto& x2) {
  return call("Matmul", {}, x1, x2);
}
inline Value auto dot(const Value auto& x1, const Value auto& x2) {
  return call("Dot", {}, x1, x2);
}
inline Value auto inner(const Value auto& x1, const Value auto& x2) {
  return call("Inner", {}, x1, x2);
}
inline Value auto outer(const Value auto& x1, const Value auto& x2) {
  return call("Outer", {}, x1, x2);
}
inline Value auto vdot(const Value auto& x1, const Value auto& x2) {
  return call("Vdot", {}, x1, x2);
}
inline Value auto kron(const Value auto& x1, const Value auto& x2) {
  return call("Kron", {}, x1, x2);
}
/// Over the last axes of one and the first of the other.
inline Value auto tensordot(const Value auto& x1, const Value auto& x2, int64_t axes = 2) {
  return call("Tensordot", {{"axes", axes}}, x1, x2);
}
inline Value auto tensordot(const Value auto& x1, const Value auto& x2,
                            const std::vector<int64_t>& axes1, const std::vector<int64_t>& axes2) {
  return call("Tensordot", {{"axes", Json::array({to_config(axes1), to_config(axes2)})}}, x1, x2);
}
inline SymbolicTensor einsum(const std::string& subscripts,
                             const std::vector<SymbolicTensor>& operands) {
  return invoke("Einsum", std::vector<OperandOf<SymbolicTensor>>(operands.begin(), operands.end()),
                {{"subscripts", subscripts}})[0];
}
inline at::Tensor einsum(const std::string& subscripts, const std::vector<at::Tensor>& operands) {
  return invoke("Einsum", std::vector<OperandOf<at::Tensor>>(operands.begin(), operands.end()),
                {{"subscripts", subscripts}})[0];
}
inline Value auto cross(const Value auto& x1, const Value auto& x2, int64_t axisa = -1,
                        int64_t axisb = -1, int64_t axisc = -1, std::optional<int64_t> axis = {}) {
  return call(
      "Cross",
      {{"axisa", axisa}, {"axisb", axisb}, {"axisc", axisc}, {"axis", detail::json_or_null(axis)}},
      x1, x2);
}
/// Distances of all pairs of rows.
inline Value auto cdist(const Value auto& x, const Value auto& y) {
  return call("CDist", {}, x, y);
}

inline Value auto cholesky(const Value auto& x, bool upper = false) {
  return call("Cholesky", {{"upper", upper}}, x);
}
/// The inverse of the matrix that has this Cholesky factor.
inline Value auto cholesky_inverse(const Value auto& x, bool upper = false) {
  return call("CholeskyInverse", {{"upper", upper}}, x);
}
inline Value auto det(const Value auto& x) { return call("Det", {}, x); }
inline Value auto inv(const Value auto& x) { return call("Inv", {}, x); }
inline Value auto logdet(const Value auto& x) { return call("Logdet", {}, x); }
/// Values and vectors, complex.
inline auto eig(const Value auto& x) { return call_all("Eig", {}, x); }
inline auto eigh(const Value auto& x) { return call_all("Eigh", {}, x); }
/// Factors in one matrix, and the pivots from 0 on.
inline auto lu_factor(const Value auto& x) { return call_all("LuFactor", {}, x); }
/// Sign and logarithm of the determinant.
inline auto slogdet(const Value auto& x) { return call_all("Slogdet", {}, x); }
/// @param mode  "reduced" or "complete".
inline auto qr(const Value auto& x, const std::string& mode = "reduced") {
  return call_all("Qr", {{"mode", mode}}, x);
}
/// U, S and V^T; without `compute_uv` S alone.
inline auto svd(const Value auto& x, bool full_matrices = true, bool compute_uv = true) {
  return call_all("SVD", {{"full_matrices", full_matrices}, {"compute_uv", compute_uv}}, x);
}
inline Value auto solve(const Value auto& a, const Value auto& b) {
  return call("Solve", {}, a, b);
}
inline Value auto solve_triangular(const Value auto& a, const Value auto& b, bool lower = false) {
  return call("SolveTriangular", {{"lower", lower}}, a, b);
}
/// The shortest of the solutions with the least squares.
inline Value auto lstsq(const Value auto& a, const Value auto& b,
                        std::optional<double> rcond = {}) {
  return call("Lstsq", {{"rcond", detail::json_or_null(rcond)}}, a, b);
}
inline Value auto pinv(const Value auto& x, std::optional<double> rcond = {}) {
  return call("Pinv", {{"rcond", detail::json_or_null(rcond)}}, x);
}
inline Value auto matrix_rank(const Value auto& x, std::optional<double> tol = {}) {
  return call("MatrixRank", {{"tol", detail::json_or_null(tol)}}, x);
}
/// @param ord  A number, "fro" or "nuc"; null: the square root of the sum of squares.
inline Value auto norm(const Value auto& x, const Json& ord = {}, const Axis& axis = {},
                       bool keepdims = false) {
  return call("Norm", {{"ord", ord}, {"axis", axis}, {"keepdims", keepdims}}, x);
}

}  // namespace strata::keras::ops
