#include "ps/tables/worker_clocks.h"

#include <algorithm>

namespace strata::ps {

int64_t WorkerClocks::slowest() const {
  if (finished_.empty()) return 0;
  return std::ranges::min_element(finished_, {}, [](const auto& each) { return each.second; })
      ->second;
}

int64_t WorkerClocks::lead(const std::string& worker) const {
  const auto found = finished_.find(worker);
  return found == finished_.end() ? 0 : found->second - slowest();
}

std::vector<std::string> WorkerClocks::workers() const {
  std::vector<std::string> names;
  for (const auto& [worker, finished] : finished_) names.push_back(worker);
  return names;
}

}  // namespace strata::ps
