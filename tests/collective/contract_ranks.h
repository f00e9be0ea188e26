#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/communicator.h"

namespace strata::collective {

/// Ranks that the contract's tests run on: the threads of one process, or processes each of which
/// runs the tests and is one of the ranks (or, where a test needs fewer, none).
class ContractRanks {
 public:
  /// What the tests are run with in this program.
  static std::vector<std::string> back_ends();

  ContractRanks(const std::string& back_end, const Placement& placement);
  ~ContractRanks();

  /// Runs `function` on every rank at once, and waits for all; the first exception is thrown here.
  void run(const std::function<void(Communicator&)>& function);
  /// The rank, which is this one, ends its connections, as its process's end does.
  void cut_off(int rank);
  /// All ranks', from 0.
  std::atomic<int>& counter();
  /// What other processes have, where they are the ranks.
  void share(std::vector<std::string>& by_rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::collective
