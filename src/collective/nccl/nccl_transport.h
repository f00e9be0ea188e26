#pragma once

#include <c10/core/Device.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/cards/card_transport.h"
#include "collective/nccl/nccl_library.h"
#include "core/mutex.h"
#include "core/thread.h"

namespace strata::collective::nccl {

/// Between cards of any processes, by NCCL: one communicator a card. Nothing of NCCL blocks the host:
/// communicators are non-blocking, and a thread looks after what is under way. It ends everything by
/// ncclCommAbort when NCCL reports an error, when `others` does (a peer is lost), or when a call has
/// not ended after `timeout`; from then on `status` is the reason, and calls throw it. It ends those that
/// `another` has made, too.
class NcclTransport final : public CardTransport {
 public:
  class CommonEnd;

  struct Options {
    int num_ranks = 0;
    /// Of this process, ascending.
    std::vector<int> ranks = {};
    /// By local rank; distinct cards.
    std::vector<c10::Device> devices = {};
    /// Of new_id, the same in all processes.
    std::string id = {};
    /// For `another`: an id that is the same in all processes. Empty: there are no others.
    std::function<std::string()> next_id = {};
    /// The limit of making the communicators, and of each call from its start on.
    std::chrono::milliseconds timeout = std::chrono::minutes(30);
    /// Whether the other processes are there, as the host knows it: when NCCL reports an error it has a
    /// second to say who is lost, since a process that ends breaks NCCL's connections first. Threads: any.
    std::function<Status()> others = {};
    /// What ends one of several between the same cards ends all; null: there is one so far.
    std::shared_ptr<CommonEnd> end = {};
  };

  /// Makes the communicators, with all other processes.
  /// @throws Error  kUnimplemented: no NCCL here. kUnavailable: NCCL's account of what went wrong.
  ///   kDeadlineExceeded: some did not come.
  explicit NcclTransport(Options options);
  ~NcclTransport() override;

  /// For one of the processes to make, and to tell the others.
  static std::string new_id();

  void exchange(const std::vector<CardMessage>& messages, const std::string& name) override;
  bool all_reduce(const std::vector<at::Tensor>& values, ReduceOp op,
                  const std::string& name) override;
  bool reduce_scatter(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& results,
                      ReduceOp op, const std::string& name) override;
  bool all_gather(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& results,
                  const std::string& name) override;
  std::shared_ptr<CardTransport> another() override;
  void fail(const Status& reason) override;
  Status status() override;
  std::string describe() const override;

 private:
  struct Watched;  // a call under way

  ncclComm_t communicator_of(int rank) const;
  void connect();
  void enqueue(const std::string& name, const std::function<void()>& calls);
  void wait_while_in_progress(const std::string& what);
  Status why_to_end() const;
  void watch(const std::stop_token& stop);
  Status look();
  Status cause_of(const Status& seen) const;
  void check_alive(const std::string& name) const STRATA_REQUIRES(mutex_);
  void abort(const Status& reason) STRATA_REQUIRES(mutex_);
  bool finalize();
  void check(ncclResult_t result, const char* call);

  const Options options_;
  const Library& library_;
  std::vector<ncclComm_t> communicators_;  // by local rank

  Mutex mutex_;
  Status status_ STRATA_GUARDED_BY(mutex_);
  bool aborted_ STRATA_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Watched>> under_way_ STRATA_GUARDED_BY(mutex_);
  std::condition_variable_any changed_;
  Thread watcher_;  // last: it uses the others
};

}  // namespace strata::collective::nccl
