#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "gpu/fake_nccl/communicator.h"

namespace strata::test::fake_nccl {

/// The calls of a thread between ncclGroupStart and ncclGroupEnd; a call by itself is a group of one.
class Group {
 public:
  static Group& of_thread();

  void start() { ++depth_; }
  /// Enqueues all and waits for communicators that are made, at the outermost end.
  ncclResult_t end();

  void add(const std::shared_ptr<Communicator>& communicator, const Operation& operation);

  /// @param where  Has the handle. Set to null where the communicator blocks and fails.
  void add_made(std::shared_ptr<Communicator> communicator, ncclComm_t* where);

  /// A split that this rank is in no part of.
  void add_left_out(std::shared_ptr<Communicator> parent, std::future<ncclResult_t> end);

  /// ncclGroupEnd reports it, and enqueues nothing. @return `error`.
  ncclResult_t fail(ncclResult_t error);

 private:
  struct Made {
    std::shared_ptr<Communicator> communicator;
    ncclComm_t* where;
  };

  ncclResult_t enqueue();
  ncclResult_t wait_for_made();
  ncclResult_t wait_for_left_out();
  void abort_made();

  int depth_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::vector<std::pair<std::shared_ptr<Communicator>, std::vector<Operation>>> operations_;
  std::vector<Made> made_;
  std::vector<std::pair<std::shared_ptr<Communicator>, std::future<ncclResult_t>>> left_out_;
};

}  // namespace strata::test::fake_nccl
