#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace strata::detail {

/// Mean and spread of each channel of `[N, C, ...]`, in float64 whatever the input: that keeps
/// values near 10000 with a variance of 0.01, and makes the rounding of float32 input irrelevant.
struct Moments {
  double count = 0;  ///< Elements a channel.
  at::Tensor mean;   ///< `[C]`, float64.
  at::Tensor m2;     ///< `[C]`: sum of squared deviations from `mean`.
  /// A number, float64, where the host does not know the count: in a step that is traced, that which a
  /// run will have; on GPUs that of all replicas. `count` is then a guess, more than 0. Else undefined.
  at::Tensor count_of_run = {};
};

/// values / max(count - less, 1).
at::Tensor over_count(const at::Tensor& values, const Moments& moments, double less = 0);

/// Of one replica's values. No elements: zeros.
/// @param x  `[N, C, ...]` on the CPU, floating; contiguous and channels-last are read as they are.
Moments batch_moments(const at::Tensor& x);

/// Joins the replicas' moments pairwise (Chan et al. 1979) in the order of the fixed tree. A
/// replica without elements is absent.
Moments merge_in_tree_order(const std::vector<const Moments*>& parts);

/// The same by operators on any device, a level of the tree at a time, without the host's knowing of
/// any number. @param rows  `[replicas, 1 + 2 * C]`, float64: count, mean, m2.
/// @return with `count_of_run`, and a count of 0.
Moments merge_rows(const at::Tensor& rows);

/// (x - mean) * scale + shift, in x's dtype and memory format.
/// @param scale, shift  `[C]`, float64.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale,
                     const at::Tensor& shift);

/// `[2, C]`, float64: the sums of dy, and of dy * (x - mean), over this replica's elements.
at::Tensor gradient_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean);

/// (dy - a - (x - mean) * b) * scale, each of a, b, scale `[C]`, float64.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean,
                          const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale);

}  // namespace strata::detail
