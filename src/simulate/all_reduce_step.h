#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulate/scenario.h"
#include "strata/collective/schedule.h"

namespace strata::simulate {

/// A bucket of gradients, and the schedule that adds it.
struct Bucket {
  int64_t elements = 0;
  int variables = 0;
  size_t ready_after = 0;  ///< the layer whose backward is its last
  std::string algorithm = {};
  std::shared_ptr<const collective::Schedule> schedule = {};
};

/// The buckets that strata makes of the network's variables, each with the planner's schedule;
/// grouped, with one rank's steps.
/// @throws Error  kInvalidArgument: an implementation that is unknown or does not fit.
std::vector<Bucket> plan_buckets(const Scenario& scenario, bool grouped);

/// One step. @param factors  How much longer than alone each worker computes; one if grouped.
StepReport all_reduce_step(const Scenario& scenario, const std::vector<Bucket>& buckets,
                           const std::vector<double>& factors, bool grouped);

}  // namespace strata::simulate
