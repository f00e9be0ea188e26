#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/communicator_checks.h"
#include "collective/shared_memory/shared_memory_communicator.h"
#include "collective/wire/wire_communicator.h"
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
            const std::shared_ptr<Communicator> local = communicators_[i];
            function(*local);
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

}  // namespace strata::collective
