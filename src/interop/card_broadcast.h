#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "tensor/arena.h"
#include "tensor/stream_event.h"

namespace strata::detail {

/// Gives one process's values of some tensors to all, from card to card: as a sum to which the others add
/// nothing, so that the bits are those values', whichever way they take. The host waits for nothing.
///
/// For a process with one replica. Threads: one.
class CardBroadcast {
 public:
  /// @param tensors  On the card of `communicator`, of `can_take`'s dtypes; alike in all processes.
  /// @param is_root  Whether this process's values count; one's do.
  CardBroadcast(std::vector<at::Tensor> tensors,
                std::shared_ptr<collective::CardCommunicator> communicator, bool is_root);

  /// Whether a tensor can be sent so.
  static bool can_take(const at::Tensor& tensor, const collective::CardCommunicator& communicator);

  /// On the calling thread's current stream. All processes make this call together, between the same calls
  /// of the communicator. @param name  For messages.
  void run(const std::string& name);

 private:
  struct Part {  // of one dtype
    std::vector<at::Tensor> tensors;
    tensor::Arena memory;
    std::vector<at::Tensor> views;  // by tensor
  };

  const std::shared_ptr<collective::CardCommunicator> communicator_;
  const bool is_root_;
  std::vector<Part> parts_;
  tensor::StreamEvent ready_;
  tensor::StreamEvent sent_;
};

}  // namespace strata::detail
