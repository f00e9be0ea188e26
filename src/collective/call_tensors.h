#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "collective/reduction.h"

namespace strata::collective {

/// A tensor's memory for the length of a call: its own where that is contiguous on the CPU, else a
/// copy.
class HostTensor {
 public:
  explicit HostTensor(const at::Tensor& tensor)
      : tensor_(tensor),
        here_(tensor.is_cpu() && tensor.is_contiguous() ? tensor : tensor.cpu().contiguous()) {}

  std::byte* data() const { return static_cast<std::byte*>(here_.data_ptr()); }
  void write_back() {
    if (!here_.is_same(tensor_)) tensor_.copy_(here_);
  }

 private:
  at::Tensor tensor_;
  at::Tensor here_;
};

/// What all_reduce and reduce_scatter bring, for the length of a call.
struct ReducedTensors {
  Reduction reduction;
  std::vector<HostTensor> staged;
  std::vector<const std::byte*> values;
  at::Tensor neutral;  // in place of absent values

  ReducedTensors(const std::vector<at::Tensor>& given, const at::Tensor& like, int64_t elements,
                 ReduceOp op, int num_replicas);
};

}  // namespace strata::collective
