#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/activations.h"
#include "strata/keras/layer.h"

/// Activations as layers: any shape, which they keep. Masks are propagated.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct ActivationOptions {
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

///     layers::Activation("relu")
class STRATA_API Activation : public keras::Layer {
 public:
  explicit Activation(activations::Activation activation, const ActivationOptions& options = {});
};

struct ReLUOptions {
  std::optional<double> max_value = {};  ///< Unset: no limit.
  double negative_slope = 0;
  double threshold = 0;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
class STRATA_API ReLU : public keras::Layer {
 public:
  explicit ReLU(const ReLUOptions& options = {});
};

struct LeakyReLUOptions {
  double negative_slope = 0.3;  ///< As in Keras's layer; its activation "leaky_relu" has 0.2.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
class STRATA_API LeakyReLU : public keras::Layer {
 public:
  explicit LeakyReLU(const LeakyReLUOptions& options = {});
};

struct PReLUOptions {
  initializers::Initializer alpha_initializer = "zeros";
  regularizers::Regularizer alpha_regularizer = {};
  constraints::Constraint alpha_constraint = {};
  /// The dimensions (1 is the first after the batch) that share slopes: {1, 2} for images.
  std::optional<std::vector<int64_t>> shared_axes = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Returns x if it is positive, else alpha x; alpha is learned, one for each element of an example.
class STRATA_API PReLU : public keras::Layer {
 public:
  explicit PReLU(const PReLUOptions& options = {});
};

struct ELUOptions {
  double alpha = 1;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
class STRATA_API ELU : public keras::Layer {
 public:
  explicit ELU(const ELUOptions& options = {});
};

struct SoftmaxOptions {
  std::vector<int64_t> axis = {-1};  ///< Over all of them together.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Elements that the input's mask excludes get 0.
class STRATA_API Softmax : public keras::Layer {
 public:
  explicit Softmax(const SoftmaxOptions& options = {});
};

}  // namespace strata::layers
