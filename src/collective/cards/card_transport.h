#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/collective/reduce_op.h"
#include "strata/core/error.h"
#include "tensor/stream_event.h"

namespace strata::collective {

/// Memory of one of this process's cards that another rank sends or receives.
struct CardMessage {
  int from = 0;  ///< Ranks, one a replica of the job.
  int to = 0;
  bool is_send = false;
  at::Tensor memory;  ///< Contiguous; on the card of the rank that is this process's.
};

/// Moves memory between cards. Work is enqueued on the current streams of the cards, and the host
/// goes on. Threads: one at a time, the same calls in the same order in all processes.
class CardTransport {
 public:
  virtual ~CardTransport() = default;

  /// All messages of this process's ranks in a round, the two ends of each pair in one order.
  virtual void exchange(const std::vector<CardMessage>& messages, const std::string& name) = 0;
  /// Reduces in place in any order, values of all ranks here; false: it has no way of its own.
  virtual bool all_reduce(const std::vector<at::Tensor>& values, ReduceOp op,
                          const std::string& name) {
    static_cast<void>(values), static_cast<void>(op), static_cast<void>(name);
    return false;
  }
  /// Reduces in any order: of n ranks rank r gets the r-th of n equal parts in its result, which may be
  /// that part of its value. @return as all_reduce.
  virtual bool reduce_scatter(const std::vector<at::Tensor>& values,
                              const std::vector<at::Tensor>& results, ReduceOp op,
                              const std::string& name) {
    static_cast<void>(values), static_cast<void>(results), static_cast<void>(op);
    static_cast<void>(name);
    return false;
  }
  /// Puts the values of all ranks, by rank, into each of `results`, those of all ranks here; a value may
  /// lie there already. @return as all_reduce.
  virtual bool all_gather(const std::vector<at::Tensor>& values,
                          const std::vector<at::Tensor>& results, const std::string& name) {
    static_cast<void>(values), static_cast<void>(results), static_cast<void>(name);
    return false;
  }
  /// One between the same cards, whose calls need no order with this one's. All processes make this
  /// call together.
  virtual std::shared_ptr<CardTransport> another() = 0;
  /// Ends what is pending, here and elsewhere: this process cannot continue.
  virtual void fail(const Status& reason) { static_cast<void>(reason); }
  /// Ok while calls can be made.
  virtual Status status() { return {}; }
  virtual std::string describe() const = 0;
};

/// Between cards of one process, by libtorch's copies.
class CopyTransport final : public CardTransport {
 public:
  /// @param receives  What the cards' streams for the copies are for.
  explicit CopyTransport(tensor::SideWork receives = tensor::SideWork::kReceive)
      : receives_(receives) {}

  void exchange(const std::vector<CardMessage>& messages, const std::string& name) override;
  std::shared_ptr<CardTransport> another() override {
    return std::make_shared<CopyTransport>(tensor::SideWork::kReceiveValues);
  }
  std::string describe() const override { return "copies between the cards of this process"; }

 private:
  const tensor::SideWork receives_;
};

}  // namespace strata::collective
