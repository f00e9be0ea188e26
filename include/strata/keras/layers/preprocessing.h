#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/keras/layer.h"

/// Layers that scale inputs. Integers become floating numbers.
/// Source: keras.layers 3.15.
namespace strata::layers {

/// One number for all, or one for each channel.
struct Numbers {
  std::vector<double> values;
  bool single;

  Numbers(double value) : values{value}, single(true) {}  // NOLINT(google-explicit-constructor)
  Numbers(std::vector<double> each)                       // NOLINT(google-explicit-constructor)
      : values(std::move(each)), single(false) {}
  Numbers(std::initializer_list<double> each) : values(each), single(false) {}
};

struct RescalingOptions {
  Numbers offset = 0.0;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Computes x scale + offset.
///
///     layers::Rescaling(1.0 / 255)
class STRATA_API Rescaling : public keras::Layer {
 public:
  explicit Rescaling(Numbers scale, const RescalingOptions& options = {});
};

struct NormalizationOptions {
  /// Dimensions that have a mean and a variance each; empty: one for all. 0 is the batch.
  std::vector<int64_t> axis = {-1};
  /// Given values, both or none; none: from `adapt`.
  std::optional<Numbers> mean = {};
  std::optional<Numbers> variance = {};
  bool invert = false;  ///< Inverts it: x sqrt(variance) + mean.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Computes (x - mean) / sqrt(variance).
class STRATA_API Normalization : public keras::Layer {
 public:
  explicit Normalization(const NormalizationOptions& options = {});

  /// Computes mean and (biased) variance of `data`, `[batch, ...]`, and builds the layer.
  /// @throws Error kFailedPrecondition: mean and variance were given. kInvalidArgument: sizes along
  ///         `axis` that differ from those it was built with.
  void adapt(const at::Tensor& data);
  /// Does the same for all batches' `x()`; elements of one dimension are batched first. Reads epoch
  /// 0 once, and its first element before that.
  /// @throws Error kInvalidArgument: no batches.
  void adapt(const data::Dataset& dataset);
};

}  // namespace strata::layers
