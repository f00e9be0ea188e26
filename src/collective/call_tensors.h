#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "collective/algorithms/reduction.h"

namespace strata::collective {

/// A tensor's memory for the length of a call: its own where that is contiguous on the CPU, else a
/// copy. The tensor must stay.
class HostTensor {
 public:
  explicit HostTensor(const at::Tensor& tensor) : tensor_(&tensor) {
    if (!tensor.is_cpu() || !tensor.is_contiguous()) copy_ = tensor.cpu().contiguous();
  }

  std::byte* data() const {
    return static_cast<std::byte*>((copy_.defined() ? copy_ : *tensor_).data_ptr());
  }
  void write_back() const {
    if (copy_.defined()) tensor_->copy_(copy_);
  }

 private:
  const at::Tensor* tensor_;
  at::Tensor copy_;
};

/// What all_reduce and reduce_scatter bring, for the length of a call.
struct ReducedTensors {
  Reduction reduction;
  c10::SmallVector<HostTensor, 4> staged;
  c10::SmallVector<const std::byte*, 8> values;
  at::Tensor neutral;  // in place of absent values

  ReducedTensors(const std::vector<at::Tensor>& given, const at::Tensor& like, int64_t elements,
                 ReduceOp op, int num_replicas);
};

/// The tensors of one call as memory. They must stay while it runs.
struct CallTensors {
  const at::Tensor& result;
  const std::vector<at::Tensor>* given;        ///< null where nothing is added
  HostTensor out;                              ///< of `result`
  std::optional<ReducedTensors> reduced = {};  ///< of `given`

  explicit CallTensors(const at::Tensor& of, const std::vector<at::Tensor>* values = nullptr)
      : result(of), given(values), out(of) {}

  /// Owns the memory of all of them: for a back end that still uses it after the call has failed.
  std::shared_ptr<void> keep() const;
};

}  // namespace strata::collective
