#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// What layers compute on the host, since it is no operator of tensors: texts and hashes.
namespace strata::layers {

/// The elements of a contiguous tensor on the CPU.
template <typename T>
std::span<T> elements_of(at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}
template <typename T>
std::span<const T> elements_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

/// Numbers cut to integers.
std::vector<int64_t> integers_of(const at::Tensor& numbers);

/// Fills `result`, zeros on the CPU, from the inputs, on the CPU too.
using HostCompute = std::function<void(const std::vector<at::Tensor>& inputs, at::Tensor& result)>;

/// A tensor of these sizes on the first input's device; while a step is recorded, one node of the
/// graph, which each run calls again.
at::Tensor on_host(const char* node, const std::vector<at::Tensor>& inputs,
                   std::vector<int64_t> sizes, at::ScalarType dtype, HostCompute compute);

}  // namespace strata::layers
