// The contract's ranks as threads, over every back end that allows it.
#include "collective/communicator_ranks.h"
#include "collective/contract_ranks.h"

namespace strata::collective {

using namespace std::chrono_literals;

struct ContractRanks::Impl {
  std::string back_end;
  Ranks ranks;
  std::atomic<int> counter{0};
};

std::vector<std::string> ContractRanks::back_ends() {
  return {"memory", "shuffled", "socket", "shared_memory"};
}

ContractRanks::ContractRanks(const std::string& back_end, const Placement& placement)
    : impl_(new Impl{.back_end = back_end, .ranks = Ranks(back_end, placement)}) {}
ContractRanks::~ContractRanks() = default;

void ContractRanks::run(const std::function<void(Communicator&)>& function) {
  impl_->ranks.run(function);
}

void ContractRanks::cut_off(int rank) {
  // Its end is not answered by who does not use the wire, or has its error already, and behind it
  // no use for a wire that is full.
  const bool answered = impl_->back_end == "memory" || impl_->back_end == "socket";
  wire::Mesh& mesh = impl_->ranks.mesh();
  for (int other = 0; other < mesh.num_tasks(); ++other) {
    if (other == rank) continue;
    mesh.handle(rank, other)->close(answered ? wire::soon() : wire::Deadline::after(50ms));
  }
}

std::atomic<int>& ContractRanks::counter() { return impl_->counter; }
void ContractRanks::share(std::vector<std::string>&) {}

}  // namespace strata::collective
