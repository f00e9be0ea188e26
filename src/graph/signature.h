#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph/structure.h"

namespace strata::graph {

/// What one graph is good for: layouts of tensors, values of the rest, and the state of the thread that
/// operators depend on.
class Signature {
 public:
  explicit Signature(const Leaves& arguments);

  /// Cost: no allocation.
  bool fits(const Leaves& arguments) const;
  /// The same for any sizes of the tensors' first dimensions.
  bool fits_rows(const Leaves& arguments) const;

  /// How it differs from `before`, for a message.
  std::string difference_from(const Signature& before) const;

 private:
  struct TensorLayout {
    explicit TensorLayout(const at::Tensor& tensor);
    bool fits(const at::Tensor& tensor, bool any_rows) const;
    std::string text() const;

    bool defined = false;
    bool requires_grad = false;
    at::ScalarType dtype = at::kFloat;
    c10::Device device = c10::Device(c10::kCPU);
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  struct ThreadState {
    static ThreadState now();
    bool operator==(const ThreadState&) const = default;

    uint64_t place = 0;
    uint64_t included_keys = 0;
    uint64_t excluded_keys = 0;
    bool grad_mode = true;
  };

  bool fits(const Leaves& arguments, bool any_rows) const;

  std::vector<TensorLayout> tensors_;
  std::string rest_;
  ThreadState thread_;
};

}  // namespace strata::graph
