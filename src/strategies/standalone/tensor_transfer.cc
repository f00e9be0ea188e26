#include "strategies/standalone/tensor_transfer.h"

#include <utility>

#include "strata/core/error.h"
#include "strategies/standalone/messages.h"

namespace strata::standalone {

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  STRATA_DCHECK(tensor.is_non_overlapping_and_dense());
  auto* const data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  return {data, tensor.nbytes()};
}

void TensorTransfer::send(wire::Connection& connection, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.nbytes() == 0) continue;
    transfers_.push_back(
        connection.send({.channel = kTensorChannel, .id = sent_++}, bytes_of(tensor)));
    kept_.push_back(tensor);
  }
}

void TensorTransfer::receive(wire::Connection& connection, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.nbytes() == 0) continue;
    transfers_.push_back(
        connection.receive({.channel = kTensorChannel, .id = received_++}, bytes_of(tensor)));
    kept_.push_back(tensor);
  }
}

void TensorTransfer::wait(wire::Transport& transport, wire::Deadline deadline,
                          std::stop_token stop) {
  const Status status = transport.wait_all(transfers_, deadline, std::move(stop));
  transfers_.clear();
  kept_.clear();
  status.throw_if_error();
}

bool TensorTransfer::drop() {
  bool any = false;
  for (const wire::Transfer& transfer : transfers_) any = any || !transfer.done();
  transfers_.clear();
  kept_.clear();
  return any;
}

}  // namespace strata::standalone
