#include "interop/card_broadcast.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <map>
#include <utility>

#include "optim/step/gradient_sums.h"

namespace strata::detail {

using tensor::StreamWait;

CardBroadcast::CardBroadcast(std::vector<at::Tensor> tensors,
                             std::shared_ptr<collective::CardCommunicator> communicator,
                             bool is_root)
    : communicator_(std::move(communicator)), is_root_(is_root) {
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& each : tensors) by_dtype[each.scalar_type()].push_back(each);
  for (auto& [dtype, of_dtype] : by_dtype) {
    std::vector<tensor::ArenaEntry> entries;
    for (const at::Tensor& each : of_dtype) entries.push_back({.sizes = each.sizes().vec()});
    Part part{.tensors = std::move(of_dtype),
              .memory = tensor::Arena(std::move(entries), dtype, communicator_->devices()[0]),
              .views = {}};
    for (size_t i = 0; i < part.tensors.size(); ++i) {
      part.views.push_back(part.memory.view(static_cast<int64_t>(i)));
    }
    parts_.push_back(std::move(part));
  }
}

bool CardBroadcast::can_take(const at::Tensor& tensor,
                             const collective::CardCommunicator& communicator) {
  const at::ScalarType dtype = tensor.scalar_type();
  const bool is_summed =
      at::isFloatingType(dtype) || at::isIntegralType(dtype, /*includeBool=*/false);
  return is_summed && tensor.device() == communicator.devices()[0] && !tensor.is_sparse();
}

void CardBroadcast::run(const std::string& name) {
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) {
    if (is_root_) {
      at::_foreach_copy_(part.views, part.tensors);
    } else {
      part.memory.flat().fill_(optimizers::kSumIdentity);
    }
  }
  const c10::Stream stream = tensor::current_stream(communicator_->devices()[0]);
  ready_.record(stream);
  ready_.block(StreamWait::kSumForGradients, communicator_->streams()[0]);
  for (Part& part : parts_) communicator_->all_reduce({part.memory.flat()}, ReduceOp::kSum, name);
  sent_.record(communicator_->streams()[0]);
  sent_.block(StreamWait::kUpdateForSums, stream);
  if (is_root_) return;
  for (Part& part : parts_) at::_foreach_copy_(part.tensors, part.views);
}

}  // namespace strata::detail
