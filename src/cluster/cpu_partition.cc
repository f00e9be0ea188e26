#include "cluster/cpu_partition.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <tuple>

#include "strata/core/str_cat.h"

namespace strata::cluster {
namespace {

// 0 where the system does not say.
int topology(int core, const char* what) {
  std::ifstream file(str_cat("/sys/devices/system/cpu/cpu", core, "/topology/", what));
  int number = 0;
  file >> number;
  return number;
}

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int each) { return std::ranges::find(b, each) != b.end(); });
}

/// Of lists that are not alike: one in turn for each process, the ones with the fewest first, until
/// nothing is left. All empty where one gets none.
void take_in_turn(const std::vector<std::vector<int>>& allowed, std::vector<size_t> processes,
                  std::vector<std::vector<int>>& parts) {
  std::ranges::stable_sort(processes, {}, [&](size_t each) { return allowed[each].size(); });
  std::set<int> taken;
  for (bool more = true; more;) {
    more = false;
    for (const size_t each : processes) {
      const auto free =
          std::ranges::find_if(allowed[each], [&](int core) { return !taken.contains(core); });
      if (free == allowed[each].end()) continue;
      taken.insert(*free);
      parts[each].push_back(*free);
      more = true;
    }
  }
  if (std::ranges::any_of(processes, [&](size_t each) { return parts[each].empty(); })) {
    for (const size_t each : processes) parts[each].clear();
  }
}

}  // namespace

std::vector<int> cores_by_place() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::tuple<int, int, int>> places;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set)) continue;
    places.emplace_back(topology(core, "physical_package_id"), topology(core, "core_id"), core);
  }
  std::ranges::sort(places);
  std::vector<int> cores;
  for (const auto& place : places) cores.push_back(std::get<2>(place));
  return cores;
}

std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int shares,
                                          const std::vector<std::vector<int>>& near) {
  std::vector<std::vector<int>> parts(static_cast<size_t>(shares));
  const size_t least = cores.size() / parts.size();
  if (least == 0) return parts;
  const size_t larger = cores.size() % parts.size();
  std::vector<int> free = cores;
  // Takes from the first free ones that `fits` takes, until the part has its size.
  const auto fill = [&](size_t i, const auto& fits) {
    const size_t size = least + (i < larger ? 1 : 0);
    std::erase_if(free, [&](int core) {
      if (parts[i].size() == size || !fits(core)) return false;
      parts[i].push_back(core);
      return true;
    });
  };
  std::vector<size_t> choosers;
  for (size_t i = 0; i < near.size(); ++i) {
    if (!near[i].empty()) choosers.push_back(i);
  }
  std::ranges::stable_sort(choosers, {}, [&](size_t i) { return near[i].size(); });
  for (const size_t i : choosers) {
    fill(i, [&](int core) { return std::ranges::find(near[i], core) != near[i].end(); });
  }
  for (size_t i = 0; i < parts.size(); ++i) fill(i, [](int) { return true; });
  return parts;
}

std::vector<std::vector<int>> divide(const std::vector<std::vector<int>>& allowed,
                                     const std::vector<std::vector<int>>& near) {
  std::vector<std::vector<int>> parts(allowed.size());
  std::vector<bool> done(allowed.size());
  for (size_t first = 0; first < allowed.size(); ++first) {
    if (done[first]) continue;
    done[first] = true;
    std::vector<size_t> together = {first};  // that share with `first`, or with each other
    for (size_t i = 0; i < together.size(); ++i) {
      for (size_t other = first + 1; other < allowed.size(); ++other) {
        if (done[other] || !overlap(allowed[together[i]], allowed[other])) continue;
        done[other] = true;
        together.push_back(other);
      }
    }
    std::ranges::sort(together);
    const bool alike =
        std::ranges::all_of(together, [&](size_t each) { return allowed[each] == allowed[first]; });
    if (!alike) {
      take_in_turn(allowed, together, parts);
      continue;
    }
    std::vector<std::vector<int>> wishes;
    for (const size_t each : together) {
      if (!near.empty()) wishes.push_back(near[each]);
    }
    auto shares = share_cores(allowed[first], static_cast<int>(together.size()), wishes);
    for (size_t i = 0; i < together.size(); ++i) parts[together[i]] = std::move(shares[i]);
  }
  return parts;
}

}  // namespace strata::cluster
