#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cholesky_inverse.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/corrcoef.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/kron.h>
#include <ATen/ops/linalg_cholesky.h>
#include <ATen/ops/linalg_det.h>
#include <ATen/ops/linalg_eig.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_inv.h>
#include <ATen/ops/linalg_lu_factor.h>
#include <ATen/ops/linalg_matrix_rank.h>
#include <ATen/ops/linalg_norm.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_slogdet.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensordot.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

at::Tensor matrix(C call) { return floating(call.tensor(0, "x")); }
Tensors two(C call) { return promoted({call.tensor(0, "x1"), call.tensor(1, "x2")}); }

at::Tensor vectors_times(const at::Tensor& a, const at::Tensor& b, int64_t axis_of_b) {
  if (a.dim() == 0 || b.dim() == 0) return a * b;
  return at::tensordot(a, b, {a.dim() - 1}, {positive_axis(axis_of_b, b.dim())});
}

at::Tensor dot(C call) {
  const Tensors x = two(call);
  return vectors_times(x[0], x[1], x[1].dim() > 1 ? -2 : -1);
}

/// Over so many last and first axes, or over those that two lists name.
at::Tensor tensordot(C call) {
  const Tensors x = two(call);
  const Json& axes = call.option("axes");
  std::vector<int64_t> of_a, of_b;
  if (axes.is_null() || axes.is_int()) {
    const int64_t n = axes.is_null() ? 2 : axes.as_int();
    for (int64_t i = 0; i < n; ++i) {
      of_a.push_back(x[0].dim() - n + i);
      of_b.push_back(i);
    }
  } else {
    of_a = integers_in(axes.as_array().at(0));
    of_b = integers_in(axes.as_array().at(1));
  }
  return at::tensordot(x[0], x[1], of_a, of_b);
}

at::Tensor cross(C call) {
  Tensors x = two(call);
  const bool same = !call.option("axis").is_null();
  const int64_t axis = call.integer("axis", -1);
  const at::Tensor a = x[0].movedim(same ? axis : call.integer("axisa", -1), -1);
  const at::Tensor b = x[1].movedim(same ? axis : call.integer("axisb", -1), -1);
  const auto part = [](const at::Tensor& t, int64_t i) {
    return i < t.size(-1) ? t.select(-1, i) : at::zeros_like(t.select(-1, 0));
  };
  const auto component = [&](int64_t i, int64_t j) {
    return part(a, i) * part(b, j) - part(a, j) * part(b, i);
  };
  if (a.size(-1) == 2 && b.size(-1) == 2) return component(0, 1);
  return at::stack({component(1, 2), component(2, 0), component(0, 1)}, -1)
      .movedim(-1, same ? axis : call.integer("axisc", -1));
}

/// c[k] = sum of a[n + k] b[n].
at::Tensor correlate(C call) {
  Tensors x = two(call);
  for (at::Tensor& each : x) each = floating(each);
  const int64_t n = x[0].numel(), m = x[1].numel(), most = std::max(n, m);
  const std::string mode = call.text("mode", "valid");
  at::Tensor full = at::convolution(x[0].view({1, 1, n}), x[1].view({1, 1, m}), {}, {1}, {m - 1},
                                    {1}, false, {0}, 1)
                        .view({-1});
  if (mode == "full") return full;
  const int64_t length = mode == "same" ? most : most - std::min(n, m) + 1;
  const int64_t rest = full.numel() - length;
  return full.narrow(0, mode == "same" && m > n ? (rest + 1) / 2 : rest / 2, length);
}

at::Tensor norm(C call) {
  const at::Tensor x = matrix(call);
  const std::vector<int64_t> axes = call.axes();
  const bool keepdims = call.flag("keepdims");
  const Json& ord = call.option("ord");
  const at::OptionalIntArrayRef dims =
      axes.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(axes);
  if (ord.is_null()) return at::linalg_vector_norm(x, 2, dims, keepdims);
  const std::string word = ord.is_string() ? ord.as_string() : "";
  if (word == "fro" || word == "nuc") return at::linalg_norm(x, word, dims, keepdims);
  const double infinity = std::numeric_limits<double>::infinity();
  const double p = word.empty() ? ord.as_double() : word.starts_with("-") ? -infinity : infinity;
  return at::linalg_norm(x, p, dims, keepdims);
}

at::Tensor pinv(C call) {
  const Json& rcond = call.option("rcond");
  const at::Tensor x = matrix(call);
  const double epsilon = x.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon();
  const double least = rcond.is_null()
                           ? 10.0 * static_cast<double>(std::max(x.size(-1), x.size(-2))) * epsilon
                           : rcond.as_double();
  return at::linalg_pinv(x, /*atol=*/std::optional<double>(), std::optional<double>(least));
}

/// The shortest of the solutions with the least squares.
at::Tensor least_squares(C call) {
  const at::Tensor a = floating(call.tensor(0, "a")), b = floating(call.tensor(1, "b"));
  const Json& rcond = call.option("rcond");
  const std::optional<double> least =
      rcond.is_null() ? std::nullopt : std::optional(rcond.as_double());
  const at::Tensor inverse = at::linalg_pinv(a, /*atol=*/std::optional<double>(), least);
  return inverse.matmul(b);
}

Tensors lu_factor(C call) {
  const auto [factors, pivots] = at::linalg_lu_factor(matrix(call));
  return {factors, pivots - 1};  // LAPACK counts from 1
}

at::Tensor solve_triangular(C call) {
  const at::Tensor a = call.tensor(0, "a"), b = call.tensor(1, "b");
  const bool vector = b.dim() == a.dim() - 1;
  const at::Tensor y =
      at::linalg_solve_triangular(a, vector ? b.unsqueeze(-1) : b, !call.flag("lower"));
  return vector ? y.squeeze(-1) : y;
}

Tensors svd(C call) {
  const at::Tensor x = matrix(call);
  const Json& vectors = call.option("compute_uv");
  if (!vectors.is_null() && !vectors.as_bool()) return {at::linalg_svdvals(x)};
  const Json& full = call.option("full_matrices");
  const auto [u, s, v] = at::linalg_svd(x, full.is_null() || full.as_bool());
  return {u, s, v};
}

at::Tensor matrix_rank(C call) {
  const Json& tol = call.option("tol");
  const at::Tensor x = matrix(call);
  return (tol.is_null() ? at::linalg_matrix_rank(x)
                        : at::linalg_matrix_rank(x, 0.0, tol.as_double()))
      .to(at::kInt);
}

at::Tensor vander(C call) {
  const at::Tensor x = call.tensor(0, "x");
  at::Tensor powers = at::arange(call.integer("N", x.size(0)), x.options());
  if (!call.flag("increasing")) powers = powers.flip(0);
  return x.unsqueeze(-1).pow(powers);
}

const OperationRow kLinearAlgebraRows[] = {
    one(
        "linalg", "Cholesky",
        [](C call) { return at::linalg_cholesky(matrix(call), call.flag("upper")); }, "upper"),
    one(
        "linalg", "CholeskyInverse",
        [](C call) { return at::cholesky_inverse(matrix(call), call.flag("upper")); }, "upper"),
    one("linalg", "Det", [](C call) { return at::linalg_det(matrix(call)); }),
    several("linalg", "Eig",
            [](C call) {
              const auto [values, vectors] = at::linalg_eig(matrix(call));
              return Tensors{values, vectors};
            }),
    several("linalg", "Eigh",
            [](C call) {
              const auto [values, vectors] = at::linalg_eigh(matrix(call));
              return Tensors{values, vectors};
            }),
    one("linalg", "Inv", [](C call) { return at::linalg_inv(matrix(call)); }),
    one("linalg", "Lstsq", least_squares, "rcond"),
    several("linalg", "LuFactor", lu_factor),
    one("linalg", "MatrixRank", matrix_rank, "tol"),
    one("linalg", "Norm", norm, "ord axis keepdims"),
    one("linalg", "Pinv", pinv, "rcond"),
    several(
        "linalg", "Qr",
        [](C call) {
          const auto [q, r] = at::linalg_qr(matrix(call), call.text("mode", "reduced"));
          return Tensors{q, r};
        },
        "mode"),
    one("linalg", "Solve",
        [](C call) { return at::linalg_solve(call.tensor(0, "a"), call.tensor(1, "b")); }),
    one("linalg", "SolveTriangular", solve_triangular, "lower"),
    several("linalg", "SVD", svd, "full_matrices compute_uv"),
    several("numpy", "Slogdet",
            [](C call) {
              const auto [sign, logarithm] = at::linalg_slogdet(matrix(call));
              return Tensors{sign, logarithm};
            }),
    one("math", "Logdet", [](C call) { return std::get<1>(at::linalg_slogdet(matrix(call))); }),
    one("numpy", "Corrcoef", [](C call) { return at::corrcoef(matrix(call)); }),
    one("numpy", "Correlate", correlate, "mode"),
    one("numpy", "Cross", cross, "axisa axisb axisc axis"),
    one("numpy", "Dot", dot),
    one(
        "numpy", "Einsum",
        [](C call) {
          return at::einsum(call.option("subscripts").as_string(), promoted(call.all_tensors()));
        },
        "subscripts"),
    one("numpy", "Inner",
        [](C call) {
          const Tensors x = two(call);
          return vectors_times(x[0], x[1], -1);
        }),
    one("numpy", "Kron",
        [](C call) {
          const Tensors x = two(call);
          return at::kron(x[0], x[1]);
        }),
    one("numpy", "Outer",
        [](C call) {
          const Tensors x = two(call);
          return x[0].flatten().unsqueeze(1) * x[1].flatten().unsqueeze(0);
        }),
    one("numpy", "Vdot",
        [](C call) {
          const Tensors x = two(call);
          return (x[0].flatten().conj() * x[1].flatten()).sum(0, false, x[0].scalar_type());
        }),
    one("numpy", "Tensordot", tensordot, "axes"),
    one("numpy", "Vander", vander, "N increasing"),
    one("math", "CDist",
        [](C call) {
          const at::Tensor x = call.tensor(0, "x"), y = call.tensor(1, "y");
          return (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1).sqrt();
        }),
};

}  // namespace

std::span<const OperationRow> linear_algebra_operations() { return kLinearAlgebraRows; }

}  // namespace strata::keras::detail
