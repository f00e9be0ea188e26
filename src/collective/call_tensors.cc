#include "collective/call_tensors.h"

#include <ATen/ops/empty.h>

namespace strata::collective {

ReducedTensors::ReducedTensors(const std::vector<at::Tensor>& given, const at::Tensor& like,
                               int64_t elements, ReduceOp op, int num_replicas)
    : reduction(like.scalar_type(), op, num_replicas) {
  staged.reserve(given.size());
  values.reserve(given.size());
  for (const at::Tensor& value : given) {
    if (value.defined()) {
      staged.emplace_back(value);
      values.push_back(staged.back().data());
      continue;
    }
    if (!neutral.defined()) {
      neutral = at::empty({elements}, like.options().device(at::kCPU));
      reduction.fill_neutral(neutral.data_ptr(), elements);
    }
    values.push_back(static_cast<const std::byte*>(neutral.data_ptr()));
  }
}

std::shared_ptr<void> CallTensors::keep() const {
  struct Kept {
    at::Tensor result;
    std::vector<at::Tensor> given;
    HostTensor out;
    std::optional<ReducedTensors> reduced;
  };
  return std::make_shared<Kept>(
      Kept{result, given != nullptr ? *given : std::vector<at::Tensor>(), out, reduced});
}

}  // namespace strata::collective
