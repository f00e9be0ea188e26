#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/json.h"
#include "strata/ps/placement.h"

namespace strata::simulate {

/// A layer: its variables, which forward waits for, and how long it computes. Its gradients are
/// ready at the end of its backward.
struct Layer {
  std::string name;
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::vector<ps::VariableSpec> variables = {};
};

/// What a simulation has to know of a network, on one device: layers in the order of forward.
/// Backward goes through them in reverse.
struct NetworkTable {
  std::string name;
  std::string source;  ///< where the numbers come from
  int64_t batch = 0;   ///< of one replica, for images/s
  std::vector<Layer> layers;

  double forward_seconds() const;
  double backward_seconds() const;
  double step_seconds() const { return forward_seconds() + backward_seconds(); }
  int64_t bytes() const;
  /// All layers' variables, in order.
  std::vector<ps::VariableSpec> variables() const;

  /// The same proportions, with other sums.
  NetworkTable with_step_seconds(double seconds) const;

  Json to_json() const;
  /// @throws Error  kInvalidArgument: names the layer, what came and what was expected.
  static NetworkTable from_json(const std::string& text);
};

/// The networks that are built in: inception3, resnet50, vgg16, alexnet, with the variables that
/// tf_cnn_benchmarks makes, in its order. Times are those of a step of `step_seconds`, a third
/// forward, shared among layers by their multiplications.
/// @throws Error  kInvalidArgument: no such network; lists them.
NetworkTable built_in_network(std::string_view name, double step_seconds, int64_t batch);
std::vector<std::string> built_in_networks();

}  // namespace strata::simulate
