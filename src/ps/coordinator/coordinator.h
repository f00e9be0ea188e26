#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/server.h"
#include "strata/ps/function_registry.h"
#include "strata/ps/remote_value.h"
#include "strata/ps/value.h"
#include "strata/wire/deadline.h"

namespace strata::ps {

/// As those of ClusterCoordinatorOptions.
struct CoordinatorOptions {
  cluster::ServerOptions server = {};
  std::chrono::nanoseconds worker_timeout = std::chrono::hours(1);
  size_t queue_size = size_t{256} << 10;
  int max_in_flight = 64;
};

/// What ClusterCoordinator (strata/strategies/cluster_coordinator.h, which documents the calls) is
/// made of: schedules functions of a FunctionRegistry on the workers of a cluster, without
/// resolvers and datasets.
class Coordinator {
 public:
  /// @param task  This task; mostly the chief. Need not be in `spec`.
  Coordinator(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
              const FunctionRegistry& registry, CoordinatorOptions options = {});
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  RemoteValue<> schedule(std::string_view function, std::vector<Value> arguments = {},
                         wire::Deadline deadline = wire::Deadline::after(kNoLimit));
  template <typename R, typename... Parameters, typename... Arguments>
  requires(sizeof...(Parameters) == sizeof...(Arguments))
      RemoteValue<std::remove_cvref_t<R>> schedule(const RemoteFunction<R(Parameters...)>& function,
                                                   const Arguments&... arguments) {
    return RemoteValue<std::remove_cvref_t<R>>(
        schedule(function.name(), {detail::to_argument<Parameters>(arguments)...}).handle());
  }
  void join(wire::Deadline deadline = wire::Deadline::after(kNoLimit));
  bool done();
  Value fetch(const RemoteValue<>& value,
              wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const {
    return value.fetch(deadline);
  }
  std::vector<Value> fetch(const std::vector<RemoteValue<>>& values,
                           wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;
  PerWorkerValues create_per_worker(std::string_view function, std::vector<Value> arguments = {});
  int num_workers() const;
  int num_ready_workers() const;
  void wait_for_workers(int count, wire::Deadline deadline);
  CoordinatorCounts counts() const;
  void shutdown(wire::Deadline deadline = wire::Deadline::after(std::chrono::seconds(60)));

  static constexpr std::chrono::hours kNoLimit = detail::kNoFetchLimit;

 private:
  std::shared_ptr<detail::CoordinatorCore> core_;
};

}  // namespace strata::ps
