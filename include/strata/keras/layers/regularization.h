#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Noise in training, no effect at inference. All keep the shape; masks are propagated.
///
/// Numbers are drawn by libtorch's operators: inside `run` from the replica's own stream, which
/// depends on the job's seed, the replica and the step; elsewhere from libtorch's global generator.
/// Keras's `seed` is saved in files only.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct DropoutOptions {
  /// The shape of the mask: 1 along a dimension drops all of it; nullopt is the input's size.
  std::optional<std::vector<std::optional<int64_t>>> noise_shape = {};
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Sets a fraction `rate` of the elements to 0 and divides the rest by 1 - rate.
class STRATA_API Dropout : public keras::Layer {
 public:
  /// @param rate  0 to 1.
  explicit Dropout(double rate, const DropoutOptions& options = {});
};

struct NoiseOptions {
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
struct SpatialDropoutOptions {
  DataFormat data_format = "channels_last";
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Drops whole channels of an example.
class STRATA_API SpatialDropout1D : public keras::Layer {
 public:
  explicit SpatialDropout1D(double rate, const NoiseOptions& options = {});
};
class STRATA_API SpatialDropout2D : public keras::Layer {
 public:
  explicit SpatialDropout2D(double rate, const SpatialDropoutOptions& options = {});
};
class STRATA_API SpatialDropout3D : public keras::Layer {
 public:
  explicit SpatialDropout3D(double rate, const SpatialDropoutOptions& options = {});
};

/// Multiplies by normal numbers around 1, with standard deviation sqrt(rate / (1 - rate)).
class STRATA_API GaussianDropout : public keras::Layer {
 public:
  /// @param rate  0 to less than 1.
  explicit GaussianDropout(double rate, const NoiseOptions& options = {});
};

/// Adds normal numbers around 0.
class STRATA_API GaussianNoise : public keras::Layer {
 public:
  /// @param stddev  0 to 1.
  explicit GaussianNoise(double stddev, const NoiseOptions& options = {});
};

/// Dropout that keeps the mean and variance of "selu".
class STRATA_API AlphaDropout : public keras::Layer {
 public:
  /// @param rate  0 to less than 1.
  explicit AlphaDropout(double rate, const DropoutOptions& options = {});
};

struct ActivityRegularizationOptions {
  double l1 = 0;
  double l2 = 0;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Returns its input and adds its penalty, divided by the batch, to the loss.
class STRATA_API ActivityRegularization : public keras::Layer {
 public:
  explicit ActivityRegularization(const ActivityRegularizationOptions& options = {});
};

}  // namespace strata::layers
