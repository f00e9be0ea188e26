#include "strata/ps/placement.h"

#include <algorithm>
#include <utility>

#include "strata/core/error.h"

namespace strata::ps {
namespace {

void check_servers(int num_servers, std::string_view call) {
  STRATA_CHECK(num_servers > 0, kInvalidArgument, "[ps] ", call, ": got ", num_servers,
               " servers; expected at least one");
}

}  // namespace

double byte_size_load(const VariableSpec& variable) {
  return static_cast<double>(num_bytes(variable));
}

double element_count_load(const VariableSpec& variable) {
  return static_cast<double>(num_elements(variable));
}

PlacementStrategy round_robin(int num_servers) {
  check_servers(num_servers, "round_robin");
  return [num_servers, next = 0](const VariableSpec&) mutable {
    return std::exchange(next, (next + 1) % num_servers);
  };
}

PlacementStrategy greedy(int num_servers) { return GreedyLoadBalancingStrategy(num_servers); }

GreedyLoadBalancingStrategy::GreedyLoadBalancingStrategy(int num_servers, LoadFunction load)
    : load_(std::move(load)) {
  check_servers(num_servers, "GreedyLoadBalancingStrategy");
  loads_.resize(static_cast<size_t>(num_servers));
}

int GreedyLoadBalancingStrategy::operator()(const VariableSpec& variable) {
  const double load = load_(variable);
  const auto least = std::ranges::min_element(loads_);
  *least += load;
  return static_cast<int>(least - loads_.begin());
}

}  // namespace strata::ps
