#pragma once

#include <functional>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/variable_spec.h"

namespace strata::ps {

/// Chooses a server, from 0, for each variable that it is called with. Its answer depends on
/// earlier calls, so call it in the order of creation; copies are independent.
/// Source: `ps_strategy` of tf.compat.v1.train.replica_device_setter.
using PlacementStrategy = std::function<int(const VariableSpec& variable)>;

/// Returns the weight of a variable, in any unit.
using LoadFunction = std::function<double(const VariableSpec& variable)>;

/// Returns bytes. @throws Error  kInvalidArgument: the shape has an unknown size.
STRATA_API double byte_size_load(const VariableSpec& variable);
/// Returns elements, as tf_cnn_benchmarks counts. @throws as `byte_size_load`.
STRATA_API double element_count_load(const VariableSpec& variable);

/// Chooses one server after the other, whatever the sizes: a large variable makes its server the
/// slowest.
/// @throws Error  kInvalidArgument: `num_servers` is not positive.
STRATA_API PlacementStrategy round_robin(int num_servers);

/// `GreedyLoadBalancingStrategy` by bytes.
STRATA_API PlacementStrategy greedy(int num_servers);

/// Chooses the server with the least load so far, the first of several. A variable stays whole, so
/// the largest one bounds the gain from more servers.
/// Source: tf.contrib.training.GreedyLoadBalancingStrategy of TensorFlow 1.
class STRATA_API GreedyLoadBalancingStrategy {
 public:
  /// @throws Error  kInvalidArgument: `num_servers` is not positive.
  explicit GreedyLoadBalancingStrategy(int num_servers, LoadFunction load = byte_size_load);

  int operator()(const VariableSpec& variable);

  const std::vector<double>& loads() const { return loads_; }  ///< by server

 private:
  LoadFunction load_;
  std::vector<double> loads_;
};

}  // namespace strata::ps
