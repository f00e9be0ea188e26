#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace strata::ps {

/// How many steps each of the workers that train a table has finished. Who is lost is waited for no
/// longer; who comes, or comes back, counts as being where the slowest is.
class WorkerClocks {
 public:
  void join(const std::string& worker) { finished_.try_emplace(worker, slowest()); }
  /// @return whether it was there.
  bool leave(const std::string& worker) { return finished_.erase(worker) > 0; }

  /// `worker` has finished another step. @return how many there are now.
  int64_t tick(const std::string& worker) {
    join(worker);
    return ++finished_[worker];
  }

  /// Takes back the last `tick`: that step was not made after all.
  void untick(const std::string& worker) {
    const auto found = finished_.find(worker);
    if (found != finished_.end()) --found->second;
  }

  /// 0: no worker.
  int64_t slowest() const;
  /// How far `worker` is ahead of the slowest.
  int64_t lead(const std::string& worker) const;
  size_t size() const { return finished_.size(); }
  std::vector<std::string> workers() const;

 private:
  std::map<std::string, int64_t> finished_;
};

}  // namespace strata::ps
