#include "strata/strategies/tpu_strategy.h"

#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strategies/default_seed.h"
#include "strategies/recording_group.h"
#include "strategies/tpu/tpu_runner.h"

namespace strata {
namespace {

constexpr const char* kName = "tpu_strategy";

int64_t replicas_of(const TPUClusterResolver& resolver, const TPUOptions& options) {
  const int64_t cores = resolver.num_accelerators();
  STRATA_CHECK(options.num_replicas >= 0 && options.num_replicas <= cores, kInvalidArgument,
               "[tpu_strategy] got num_replicas ", options.num_replicas, "; expected 1 to ", cores,
               ", the cores of platform '", resolver.platform(), "', or 0 for all");
  STRATA_CHECK(options.runs_in_flight > 0, kInvalidArgument, "[tpu_strategy] got runs_in_flight ",
               options.runs_in_flight, "; expected 1 or more");
  return options.num_replicas > 0 ? options.num_replicas : cores;
}

/// Steps are recorded with them, and computed on the cores.
ReplicaGroupOptions recording_options(const TPUOptions& options, int64_t num_replicas) {
  ReplicaGroupOptions group;
  group.name = kName;
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.timeout;
  detail::record_for(group, "TPU", static_cast<size_t>(num_replicas));
  return group;
}

}  // namespace

TPUStrategy::TPUStrategy(const TPUClusterResolver& resolver, const TPUOptions& options)
    : TPUStrategy(resolver, options, replicas_of(resolver, options)) {}

TPUStrategy::TPUStrategy(const TPUClusterResolver& resolver, const TPUOptions& options,
                         int64_t num_replicas)
    : Strategy(recording_options(options, num_replicas)),
      runner_(std::make_shared<tpu::TpuRunner>(
          *resolver.client(), tpu::TpuRunner::Settings{
                                  .num_replicas = static_cast<int>(num_replicas),
                                  .seed = group().seed(),
                                  .timeout = options.timeout,
                                  .runs_in_flight = static_cast<size_t>(options.runs_in_flight)})) {
  group().observe(runner_);
  STRATA_LOG(kInfo) << Strategy::describe();
}

void TPUStrategy::fetch() { runner_->fetch(); }
int64_t TPUStrategy::compilation_count() const { return runner_->programs(); }
int64_t TPUStrategy::runs_ahead_count() const { return runner_->runs_ahead(); }
void TPUStrategy::do_refresh() { fetch(); }

}  // namespace strata
