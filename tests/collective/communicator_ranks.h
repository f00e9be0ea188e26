#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/collective/shared.h"
#include "strata/collective/shared_memory_communicator.h"
#include "strata/collective/wire_communicator.h"
#include "wire/wires.h"

namespace strata::collective {

inline std::unique_ptr<wire::Wires> make_wires(const std::string& kind) {
  if (kind == "memory") return std::make_unique<wire::MemoryWires>();
  if (kind == "shuffled") {
    return std::make_unique<wire::MemoryWires>(wire::MemoryNetworkOptions{
        .seed = 3,
        .link = {.fragment = true, .jitter = std::chrono::microseconds(50)},
        .shuffle = true,
        .eager_limit = 100});
  }
  return std::make_unique<wire::SocketWires>();
}

/// Ranks as threads, each with its communicator.
class Ranks {
 public:
  /// @param kind  A wire's, see make_wires; or "shared_memory", set up over a wire in memory.
  explicit Ranks(const std::string& kind, const Placement& placement,
                 const CommunicationOptions& options = {}, const SharedMemoryOptions& shared = {})
      : wires_(make_wires(kind)), mesh_(*wires_, placement.num_ranks()) {
    const auto planner = std::make_shared<Planner>(placement, LinkModel::typical(), options);
    for (int rank = 0; rank < placement.num_ranks(); ++rank) {
      std::vector<std::shared_ptr<wire::Connection>> peers;
      for (int other = 0; other < placement.num_ranks(); ++other) {
        peers.push_back(other == rank ? nullptr : mesh_.handle(rank, other));
      }
      communicators_.push_back(std::make_shared<WireCommunicator>(
          rank, std::move(peers),
          std::shared_ptr<wire::Transport>(std::shared_ptr<void>(), &mesh_.transport(rank)),
          planner));
    }
    if (kind != "shared_memory") return;
    const std::vector<std::shared_ptr<Communicator>> wire = communicators_;
    run([&](Communicator& c) {
      SharedMemoryOptions own = shared;
      own.name = wire::task_name(c.rank());
      const auto rank = static_cast<size_t>(c.rank());
      communicators_[rank] = std::make_shared<SharedMemoryCommunicator>(wire[rank], own);
    });
  }

  Communicator& communicator(int rank) { return *communicators_[static_cast<size_t>(rank)]; }
  /// The rank's process ends.
  void end(int rank) { communicators_[static_cast<size_t>(rank)].reset(); }
  wire::Mesh& mesh() { return mesh_; }

  /// Runs `function` on every rank at once; the first exception is thrown here.
  void run(const std::function<void(Communicator&)>& function) {
    std::vector<std::exception_ptr> errors(communicators_.size());
    {
      std::vector<Thread> threads;
      for (size_t i = 0; i < communicators_.size(); ++i) {
        threads.emplace_back("rank", [&, i] {
          try {
            const std::shared_ptr<Communicator> mine = communicators_[i];
            function(*mine);
          } catch (...) {
            errors[i] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  std::unique_ptr<wire::Wires> wires_;
  wire::Mesh mesh_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
};

inline at::Tensor random_values(int64_t size, at::ScalarType dtype) {
  const at::Tensor normal = at::randn({size}) * 100;
  return c10::isFloatingType(dtype) ? normal.to(dtype) : normal.to(at::kInt).to(dtype);
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         (a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

/// all_reduce of every rank's share of `values` (by replica id) is what one process makes of them.
inline void expect_all_reduce(Ranks& ranks, const Placement& placement,
                              const std::vector<at::Tensor>& values, ReduceOp op, uint32_t id) {
  const at::Tensor expected = reduce_in_order(values, op);
  ranks.run([&](Communicator& communicator) {
    std::vector<at::Tensor> mine;
    for (const int replica : placement.replicas_of(communicator.rank())) {
      const at::Tensor& value = values[static_cast<size_t>(replica)];
      mine.push_back(value.defined() ? value.clone() : value);
    }
    at::Tensor result = at::empty_like(expected);
    communicator.all_reduce(mine, result, op, {.id = id});
    EXPECT_TRUE(same_bits(result, expected))
        << "rank " << communicator.rank() << " of " << communicator.num_ranks() << ", "
        << expected.numel() << " " << expected.scalar_type();
    // In place: over the first replica's own.
    if (!mine.empty() && mine[0].defined()) {
      communicator.all_reduce(mine, mine[0], op, {.id = id});
      EXPECT_TRUE(same_bits(mine[0], expected)) << "in place";
    } else {
      communicator.all_reduce(mine, result, op, {.id = id});
    }
  });
}

inline std::vector<at::Tensor> values_of(const Placement& placement, int64_t size,
                                         at::ScalarType dtype) {
  std::vector<at::Tensor> values;
  for (int i = 0; i < placement.num_replicas(); ++i) values.push_back(random_values(size, dtype));
  return values;
}

/// What each rank's call ends with; "" if it does not throw.
inline std::vector<std::string> errors_of(Ranks& ranks, int n,
                                          const std::function<void(Communicator&)>& call,
                                          std::optional<ErrorCode> code) {
  std::vector<std::string> messages(static_cast<size_t>(n));
  ranks.run([&](Communicator& c) {
    try {
      call(c);
    } catch (const Error& error) {
      if (code) {
        EXPECT_EQ(error.code(), *code) << error.what();
      }
      messages[static_cast<size_t>(c.rank())] = error.what();
    }
  });
  return messages;
}

}  // namespace strata::collective
