#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "graph/stablehlo/lower.h"
#include "pjrt/client.h"

/// Copies between tensors and a program's devices.
namespace strata::graph::stablehlo {

/// The elements `where` of the memory that `tensor` is in.
at::Tensor part_of(const at::Tensor& tensor, const Geometry& where);

/// A capture's elements, which are in the memory of `tensor`, as an array of that replica's device.
pjrt::Buffer copy_capture(const pjrt::Client& client, const Parameter& parameter,
                          const at::Tensor& tensor, size_t replica);
/// The inverse: writes them to the memory of `tensor`.
void read_capture(const pjrt::Buffer& buffer, const Parameter& parameter, const at::Tensor& tensor,
                  std::chrono::milliseconds timeout);

/// A replica's first state of its random numbers, the parameter of kRandom; replicas have different ones.
pjrt::Buffer random_state(const pjrt::Client& client, const Parameter& parameter, uint64_t seed,
                          size_t replica);

/// A replica's inputs as arrays of its device, in the order of the parameters.
/// @param steps  More than 1: inputs have an axis in front, one element for each.
/// @throws Error  kInvalidArgument: an input of other sizes than the graph's.
std::vector<pjrt::Buffer> copy_inputs(const pjrt::Client& client, const Graph& graph,
                                      const LoweredGraph& lowered, int64_t steps, size_t replica,
                                      const std::vector<at::Tensor>& inputs);

/// A result that is laid out as `value`; of each of `steps` steps, if more than 1.
at::Tensor read_result(const pjrt::Buffer& buffer, const Value& value, int64_t steps,
                       std::chrono::milliseconds timeout);

}  // namespace strata::graph::stablehlo
