#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "strata/wire/deadline.h"
#include "wire/transport.h"

namespace strata::standalone {

/// The elements of `tensor`, which is dense, as they lie in memory.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

/// Elements on their way, in one direction of a connection. Both sides count the messages.
class TensorTransfer {
 public:
  /// @param tensors  Dense; each one's memory stays as it is until `wait`.
  void send(wire::Connection& connection, const std::vector<at::Tensor>& tensors);
  void receive(wire::Connection& connection, const std::vector<at::Tensor>& tensors);

  /// @throws Error  the connection's status; kDeadlineExceeded, kCancelled (`stop`).
  void wait(wire::Transport& transport, wire::Deadline deadline, std::stop_token stop = {});

  /// What is not done is cancelled. @return whether there was anything.
  bool drop();

 private:
  std::vector<wire::Transfer> transfers_;
  std::vector<at::Tensor> kept_;
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
};

}  // namespace strata::standalone
