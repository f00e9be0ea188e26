#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

namespace strata::layers {

struct BatchNormalizationOptions {
  int64_t axis = -1;       ///< The channels' axis.
  double momentum = 0.99;  ///< new = momentum * old + (1 - momentum) * batch
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  initializers::Initializer beta_initializer = "zeros";
  initializers::Initializer gamma_initializer = "ones";
  initializers::Initializer moving_mean_initializer = "zeros";
  initializers::Initializer moving_variance_initializer = "ones";
  regularizers::Regularizer beta_regularizer = {};
  regularizers::Regularizer gamma_regularizer = {};
  constraints::Constraint beta_constraint = {};
  constraints::Constraint gamma_constraint = {};
  /// Uses the statistics of the whole global batch over the replicas, so that N replicas compute
  /// like one device. False: each replica's own rows; outside `run` the moving statistics are the
  /// mean of the replicas'.
  bool synchronized = false;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Normalises each channel over all other axes: with the batch's mean and (biased) variance in
/// training, and with their moving averages otherwise and while the layer is frozen. Masked rows
/// are excluded from the statistics. A replica without rows does not change them.
class STRATA_API BatchNormalization : public keras::Layer {
 public:
  explicit BatchNormalization(const BatchNormalizationOptions& options = {});
};

struct LayerNormalizationOptions {
  Axes axis = -1;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  initializers::Initializer beta_initializer = "zeros";
  initializers::Initializer gamma_initializer = "ones";
  regularizers::Regularizer beta_regularizer = {};
  regularizers::Regularizer gamma_regularizer = {};
  constraints::Constraint beta_constraint = {};
  constraints::Constraint gamma_constraint = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Normalises each example over `axis`.
class STRATA_API LayerNormalization : public keras::Layer {
 public:
  explicit LayerNormalization(const LayerNormalizationOptions& options = {});
};

struct GroupNormalizationOptions {
  int64_t groups = 32;  ///< -1: a group for each channel (instance normalization).
  int64_t axis = -1;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  initializers::Initializer beta_initializer = "zeros";
  initializers::Initializer gamma_initializer = "ones";
  regularizers::Regularizer beta_regularizer = {};
  regularizers::Regularizer gamma_regularizer = {};
  constraints::Constraint beta_constraint = {};
  constraints::Constraint gamma_constraint = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Normalises each example over groups of channels and all other axes.
class STRATA_API GroupNormalization : public keras::Layer {
 public:
  explicit GroupNormalization(const GroupNormalizationOptions& options = {});
};

struct RMSNormalizationOptions {
  Axes axis = -1;
  double epsilon = 1e-6;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Computes x / sqrt(mean(x^2) + epsilon) * scale over `axis`.
class STRATA_API RMSNormalization : public keras::Layer {
 public:
  explicit RMSNormalization(const RMSNormalizationOptions& options = {});
};

struct UnitNormalizationOptions {
  Axes axis = -1;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Scales to a length of 1 over `axis`.
class STRATA_API UnitNormalization : public keras::Layer {
 public:
  explicit UnitNormalization(const UnitNormalizationOptions& options = {});
};

}  // namespace strata::layers
