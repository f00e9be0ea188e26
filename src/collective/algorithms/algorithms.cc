#include "strata/collective/algorithms.h"

#include <utility>

#include "collective/algorithms/standard_algorithms.h"
#include "core/letter_case.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

bool has_several_ranks(const Request& request) { return request.placement.num_ranks() > 1; }

}  // namespace

std::string_view collective_name(Collective collective) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                         "barrier"};
  return kNames[static_cast<size_t>(collective)];
}

Algorithms Algorithms::standard() {
  using enum Collective;
  Algorithms result;
  for (const Collective collective : {kAllReduce, kReduceScatter, kAllGather}) {
    result.add({.name = "direct", .collective = collective, .make = direct});
    result.add({.name = "halving_doubling",
                .collective = collective,
                .make = halving_doubling,
                .fits = has_several_ranks});
  }
  result.add(
      {.name = "exchange", .collective = kAllReduce, .make = exchange, .fits = has_several_ranks});
  result.add({.name = "recursive_doubling",
              .collective = kAllReduce,
              .make = recursive_doubling,
              .fits = has_several_ranks});
  result.add({.name = "tree", .collective = kAllReduce, .make = tree, .fits = has_several_ranks});
  result.add({.name = "hierarchical",
              .collective = kAllReduce,
              .make = hierarchical,
              .fits = has_hosts_of_several_ranks});
  result.add({.name = "ring",
              .collective = kAllReduce,
              .fixed_order = false,
              .make = ring,
              .fits = all_have_replicas});
  result.add({.name = "ring", .collective = kAllGather, .make = ring});
  result.add({.name = "direct", .collective = kBroadcast, .pipelines = false, .make = send_to_all});
  result.add({.name = "tree", .collective = kBroadcast, .make = tree});
  result.add({.name = "chain", .collective = kBroadcast, .make = chain});
  result.add({.name = "scatter", .collective = kBroadcast, .make = scatter});
  result.add(
      {.name = "dissemination", .collective = kBarrier, .pipelines = false, .make = dissemination});
  result.add(
      {.name = "direct", .collective = kBarrier, .pipelines = false, .make = barrier_direct});
  return result;
}

void Algorithms::add(Algorithm algorithm) {
  STRATA_CHECK(!algorithm.name.empty() && algorithm.make, kInvalidArgument,
               "[algorithms] add: got '", algorithm.name,
               "'; expected a name and a function that makes schedules");
  STRATA_CHECK(find(algorithm.collective, algorithm.name) == nullptr, kAlreadyExists,
               "[algorithms] add: there is a ", algorithm.name, " for ",
               collective_name(algorithm.collective), " already; choose another name");
  algorithms_.push_back(std::move(algorithm));
}

std::vector<const Algorithm*> Algorithms::offered(const Request& request) const {
  std::vector<const Algorithm*> result;
  for (const Algorithm& algorithm : algorithms_) {
    if (algorithm.collective != request.collective) continue;
    if (request.order == Order::kFixed && !algorithm.fixed_order) continue;
    if (algorithm.fits && !algorithm.fits(request)) continue;
    result.push_back(&algorithm);
  }
  return result;
}

const Algorithm* Algorithms::find(Collective collective, std::string_view name) const {
  for (const Algorithm& algorithm : algorithms_) {
    if (algorithm.collective == collective &&
        strata::detail::lower_case(algorithm.name) == strata::detail::lower_case(name)) {
      return &algorithm;
    }
  }
  return nullptr;
}

}  // namespace strata::collective
