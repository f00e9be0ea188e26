#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "strata/core/error.h"

namespace strata::collective {

struct SharedMemoryOptions {
  /// This process, in the others' messages: "/job:worker/task:1". Empty: its process id.
  std::string name = {};
  /// Of each call.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Of the set-up.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(1);
  /// Of the ranks together: where more replicas wait, they give the core up sooner. 0: the host's.
  int cores = 0;
  /// Ends every wait: a rank is lost, which may be stopped and so cannot be seen from here.
  /// `cluster::Server::failed`.
  std::stop_token failed = {};
  /// Why `failed` was requested: `cluster::Server::status`.
  std::function<Status()> reason = {};
  /// Why a peer was lost, for this rank's error: what others say of it may be about a third, or
  /// about this rank, where a link was cut. `cluster::Server::explain`.
  std::function<Status(const Status& seen)> root_cause = {};
};

/// The back end for ranks (processes, or threads) of one host: collectives in memory that they
/// share. The bits are WireCommunicator's in fixed order.
///
/// Tensors of `buffer` are read and written where they are: all ranks map them. Others go through
/// the shared memory in pieces that stay in the caches. The memory has no name in any file system
/// and ends with the last process that uses it, also when processes are killed; a buffer's ends
/// when every rank's tensor of it is destroyed.
///
/// A wait is busy for at most 0.3 ms (with more ranks than cores 0.1 ms, in which it offers its
/// core to others all the time), then sleeps. It ends when the rank it waits for comes, fails or
/// ends, at the deadline, when `failed` or the call's `stop` is requested, and when `bootstrap` has
/// failed; up to 20 ms later.
///
/// Threads: any; calls of different ids may run at once. There is no thread behind it. At most 4096
/// different ids.
/// Cost: small calls one barrier (0.3 to 1 us for 1 KiB on two cores); larger ones one a piece of
/// 64 KiB, or two in all for tensors of `buffer`: then an all-reduce is n reads and n writes an
/// element. Memory: up to 0.4 MB an id and rank, as much of it as calls touch.
class SharedMemoryCommunicator final : public Communicator {
 public:
  using Options = SharedMemoryOptions;

  /// Every rank at the same time.
  /// @param bootstrap  Between the same ranks; used to set up, and asked for its status while
  ///   waiting: it fails where a process dies.
  /// @throws Error, the same on all ranks:  kFailedPrecondition: ranks are on different hosts
  ///   (`host_identity`). kUnavailable: the system allows no such memory, and why: use `bootstrap`
  ///   instead, which has not failed. Others: what `bootstrap` throws, kDeadlineExceeded.
  explicit SharedMemoryCommunicator(std::shared_ptr<Communicator> bootstrap,
                                    const Options& options = {});
  /// Others that wait for this rank learn that it has ended.
  ~SharedMemoryCommunicator() override;

  std::string describe() const override;
  bool shares_memory() const override { return true; }

 private:
  struct Impl;

  void do_call(const CollectiveCall& call, const CallOptions& options) override;
  void do_fail(const Status& reason) override;
  Status do_status() override;
  at::Tensor do_buffer(int64_t elements, at::ScalarType dtype) override;
  std::vector<at::Tensor> do_buffers(int64_t elements, at::ScalarType dtype) override;
  at::Tensor do_common_buffer(int64_t elements, at::ScalarType dtype) override;

  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::collective
