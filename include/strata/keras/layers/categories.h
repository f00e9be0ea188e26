#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Layers that make categories of numbers and rows of numbers of categories.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct CategoryModeWords {
  enum Word { kInt, kOneHot, kMultiHot, kCount };
  static constexpr const char* kOption = "output_mode";
  static constexpr const char* kWords[] = {"int", "one_hot", "multi_hot", "count"};
};
/// "int": the categories themselves; "one_hot": a row for each; "multi_hot", "count": one row for
/// all of a sample.
using CategoryMode = OneOf<CategoryModeWords>;

struct CategoryEncodingOptions {
  CategoryMode output_mode = "multi_hot";  ///< Not "int".
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Rows of `num_tokens` for categories from 0 on; others are left out. With "count" a second input
/// of the call (`count_weights` in Keras) says how much each counts.
class STRATA_API CategoryEncoding : public keras::Layer {
 public:
  explicit CategoryEncoding(int64_t num_tokens, const CategoryEncodingOptions& options = {});
};

struct DiscretizationOptions {
  std::vector<double> bin_boundaries = {};  ///< Rising; or:
  std::optional<int64_t> num_bins = {};     ///< So many, from `adapt`.
  double epsilon = 0.01;                    ///< The error that `adapt` may make; smaller is slower.
  CategoryMode output_mode = "int";
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// The number of the range that a number is in: 0 below the first boundary.
///
///     layers::Discretization({.bin_boundaries = {0, 1, 2}})
class STRATA_API Discretization : public keras::Layer {
 public:
  explicit Discretization(const DiscretizationOptions& options);

  /// Sets the boundaries to quantiles of `data`.
  /// @throws Error kFailedPrecondition: boundaries were given.
  void adapt(const at::Tensor& data);
};

}  // namespace strata::layers
