#pragma once

#include <functional>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/variable_spec.h"

namespace strata::ps {

/// Chooses a server, from 0, for each variable that it is called with. What it answers depends on
/// the calls before, so call it in the order of creation; copies go on by themselves.
/// Source: `ps_strategy` of tf.compat.v1.train.replica_device_setter.
using PlacementStrategy = std::function<int(const VariableSpec& variable)>;

/// What a variable weighs, in any unit.
using LoadFunction = std::function<double(const VariableSpec& variable)>;

/// Bytes. @throws Error  kInvalidArgument: the shape has a size that is not known.
STRATA_API double byte_size_load(const VariableSpec& variable);
/// Elements, as tf_cnn_benchmarks counts. @throws as `byte_size_load`.
STRATA_API double element_count_load(const VariableSpec& variable);

/// One server after the other, whatever the sizes: a large variable makes its server the slowest.
/// @throws Error  kInvalidArgument: `num_servers` is not positive.
STRATA_API PlacementStrategy round_robin(int num_servers);

/// `GreedyLoadBalancingStrategy` by bytes.
STRATA_API PlacementStrategy greedy(int num_servers);

/// The server with the least load so far, the first of several. A variable stays whole, so the
/// largest one bounds what more servers can do.
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
