#include "simulate/scenario.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "simulate/all_reduce_step.h"
#include "simulate/parameter_server_step.h"
#include "strata/core/error.h"

namespace strata::simulate {
namespace {

constexpr int kFewWorkers = 32;       // that are simulated one by one
constexpr int kMostOverSwitch = 256;  // workers, and servers

/// SplitMix64: the same numbers on every machine, which std::normal_distribution does not promise.
uint64_t next_bits(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double uniform(uint64_t& state) {  // above 0, at most 1
  return (static_cast<double>(next_bits(state) >> 11) + 1) * 0x1p-53;
}

/// Lognormal with mean 1.
double straggler_factor(double sigma, uint64_t& state) {
  const double radius = std::sqrt(-2 * std::log(uniform(state)));
  const double normal = radius * std::cos(2 * std::numbers::pi * uniform(state));
  return std::exp(sigma * normal - sigma * sigma / 2);
}

void add(StepReport& sum, const StepReport& step) {
  sum.step_seconds += step.step_seconds;
  sum.compute_seconds += step.compute_seconds;
  sum.straggler_seconds += step.straggler_seconds;
  sum.pull_seconds += step.pull_seconds;
  sum.push_seconds += step.push_seconds;
  sum.overhead_seconds += step.overhead_seconds;
  sum.events += step.events;
}

void divide(StepReport& sum, double by) {
  sum.step_seconds /= by;
  sum.compute_seconds /= by;
  sum.straggler_seconds /= by;
  sum.pull_seconds /= by;
  sum.push_seconds /= by;
  sum.overhead_seconds /= by;
}

}  // namespace

void Scenario::check() const {
  STRATA_CHECK(!network.layers.empty(), kInvalidArgument,
               "[simulate] network: got one without layers; expected a built-in one or a file");
  STRATA_CHECK(replicas >= 1 && replicas_per_worker >= 1 && workers_per_host >= 1, kInvalidArgument,
               "[simulate] got ", replicas, " replicas, ", replicas_per_worker, " a worker, ",
               workers_per_host, " workers a host; expected 1 or more of each");
  STRATA_CHECK(replicas % replicas_per_worker == 0, kInvalidArgument, "[simulate] got ", replicas,
               " replicas, ", replicas_per_worker,
               " a worker; expected a multiple, so that all workers are alike");
  STRATA_CHECK(strategy != Strategy::kParameterServer || servers >= 1, kInvalidArgument,
               "[simulate] servers: got ", servers, "; expected 1 or more");
  STRATA_CHECK(stragglers >= 0 && overhead >= 0 && overhead_per_doubling >= 0, kInvalidArgument,
               "[simulate] got stragglers ", stragglers, ", overhead ", overhead, ", ",
               overhead_per_doubling, " a doubling; expected numbers that are not negative");
  STRATA_CHECK(switch_queue_seconds >= 0, kInvalidArgument, "[simulate] switch_queue_seconds: got ",
               switch_queue_seconds, "; expected a time that is not negative; 0: no queue");
  STRATA_CHECK(switch_queue_seconds == 0 || strategy != Strategy::kParameterServer ||
                   (workers() <= kMostOverSwitch && servers <= kMostOverSwitch),
               kInvalidArgument, "[simulate] switch_queue_seconds: got ", workers(),
               " workers and ", servers, " servers; expected at most ", kMostOverSwitch,
               " of each, since each packet is simulated; 0 shares lines without packets");
  STRATA_CHECK(steps >= 1, kInvalidArgument, "[simulate] steps: got ", steps,
               "; expected 1 or more");
  STRATA_CHECK(
      detail != Detail::kGrouped || can_group(*this), kInvalidArgument,
      "[simulate] detail: got grouped for workers that are not alike; expected one worker a "
      "host, equal links, and parameter servers without a switch's queue, ring, direct, "
      "halving_doubling of a power of two, or AUTO; or detail full");
}

StepReport simulate(const Scenario& scenario) {
  scenario.check();
  const int workers = scenario.workers();
  const bool grouped =
      scenario.detail == Detail::kGrouped ||
      (scenario.detail == Detail::kAuto && workers > kFewWorkers && can_group(scenario));
  STRATA_CHECK(
      grouped || workers <= 1024, kInvalidArgument, "[simulate] got ", workers,
      " workers that are not alike; expected at most 1024, or one a host with equal links, ",
      "and parameter servers without a switch's queue, ring, direct or AUTO, which are simulated "
      "as groups");
  const bool adds = scenario.strategy == Strategy::kAllReduce;
  const std::vector<Bucket> buckets =
      adds ? plan_buckets(scenario, grouped) : std::vector<Bucket>();
  StepReport sum;
  for (int step = 0; step < scenario.steps; ++step) {
    uint64_t state = scenario.seed * 0x2545f4914f6cdd1d + static_cast<uint64_t>(step);
    std::vector<double> factors(static_cast<size_t>(workers), 1.0);
    if (scenario.stragglers > 0) {
      // A worker is as late as the latest of its replicas.
      for (double& factor : factors) {
        factor = 0;
        for (int i = 0; i < scenario.replicas_per_worker; ++i) {
          factor = std::max(factor, straggler_factor(scenario.stragglers, state));
        }
      }
    }
    if (grouped) factors = {*std::max_element(factors.begin(), factors.end())};
    StepReport one = adds ? all_reduce_step(scenario, buckets, factors, grouped)
                          : parameter_server_step(scenario, factors, grouped);
    if (scenario.replicas > 1) {
      one.overhead_seconds =
          one.compute_seconds *
          (scenario.overhead + scenario.overhead_per_doubling * std::log2(scenario.replicas));
      one.step_seconds += one.overhead_seconds;
    }
    if (step == 0) {
      sum = one;
    } else {
      add(sum, one);
    }
  }
  divide(sum, scenario.steps);
  sum.grouped = grouped;
  sum.efficiency = sum.compute_seconds / sum.step_seconds;
  sum.images_per_second =
      static_cast<double>(scenario.network.batch) * scenario.replicas / sum.step_seconds;
  return sum;
}

ps::Placement place_on_servers(const std::vector<ps::VariableSpec>& variables, int servers,
                               PlacementRule rule) {
  switch (rule) {
    case PlacementRule::kGreedy:
      return ps::place(variables, servers, {.strategy = ps::greedy});
    case PlacementRule::kRoundRobin:
      return ps::place(variables, servers, {.strategy = ps::round_robin});
    case PlacementRule::kSharded:
      break;
  }
  return ps::place(variables, servers);
}

}  // namespace strata::simulate
