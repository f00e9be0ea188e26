#pragma once

#include <cstdint>
#include <string>

#include "simulate/network_table.h"

namespace strata::tools {

/// How long the layers of a model take on one replica, on this machine's CPUs: medians of `steps`
/// forward and backward passes of a batch of zeros or ones, after two that do not count. A layer's
/// backward lasts from when the gradients of the layers behind it were ready until its own are, so
/// that it has the time of layers without weights that are between them.
/// @param path  A model that Model::save or Keras wrote; its layers are those of the table.
/// Says on standard error how far it is.
/// @throws Error  as load_model; kInvalidArgument: a model with an input whose sizes vary, or
///   without weights.
simulate::NetworkTable measure_network(const std::string& path, int64_t batch, int steps);

}  // namespace strata::tools
