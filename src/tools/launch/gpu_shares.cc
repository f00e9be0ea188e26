#include "tools/launch/gpu_shares.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "cluster/cpu_partition.h"
#include "core/join.h"
#include "strata/core/str_cat.h"

namespace strata::tools {

std::vector<std::string> visible_gpus() {
  std::vector<std::string> gpus;
  if (const char* const listed = std::getenv("CUDA_VISIBLE_DEVICES")) {
    for (std::string_view rest = listed; !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      gpus.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return gpus;
  }
  std::error_code error;
  while (std::filesystem::exists(str_cat("/dev/nvidia", gpus.size()), error)) {
    gpus.push_back(std::to_string(gpus.size()));
  }
  return gpus;
}

std::vector<std::string> share_gpus(const std::vector<std::string>& gpus, int workers) {
  std::vector<int> numbers(gpus.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::string> shares;
  for (const std::vector<int>& share : cluster::share_cores(numbers, workers)) {
    shares.push_back(join(
        share, [&](int gpu) { return gpus[static_cast<size_t>(gpu)]; }, ","));
  }
  return shares;
}

}  // namespace strata::tools
