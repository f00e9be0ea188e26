#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

/// What layers compute on the host, since it is no operator of tensors: texts and hashes.
namespace strata::layers {

/// Fills `result`, zeros on the CPU, from the inputs, on the CPU too.
using HostCompute = std::function<void(const std::vector<at::Tensor>& inputs, at::Tensor& result)>;

/// A tensor of these sizes on the first input's device; while a step is recorded, one node of the
/// graph, which each run calls again.
at::Tensor on_host(const char* node, const std::vector<at::Tensor>& inputs,
                   std::vector<int64_t> sizes, at::ScalarType dtype, HostCompute compute);

}  // namespace strata::layers
