#include "tools/core_shares.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>

#include "strata/core/str_cat.h"

namespace strata::tools {
namespace {

// 0 where the system does not say.
int topology(int core, const char* what) {
  std::ifstream file(str_cat("/sys/devices/system/cpu/cpu", core, "/topology/", what));
  int number = 0;
  file >> number;
  return number;
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

std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int shares) {
  std::vector<std::vector<int>> parts(static_cast<size_t>(shares));
  const size_t least = cores.size() / parts.size();
  if (least == 0) return parts;
  size_t larger = cores.size() % parts.size();
  auto next = cores.begin();
  for (auto& part : parts) {
    const size_t size = least + (larger > 0 ? 1 : 0);
    if (larger > 0) --larger;
    part.assign(next, next + static_cast<std::ptrdiff_t>(size));
    next += static_cast<std::ptrdiff_t>(size);
  }
  return parts;
}

}  // namespace strata::tools
