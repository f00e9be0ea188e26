#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/ps/value.h"

namespace strata::ps {

namespace detail {

/// A worker's value of one ResourceId: an object that a factory has made, the result of a function,
/// or the error.
struct Resource {
  std::string name;  ///< the factory or function
  std::shared_ptr<void> object = {};
  std::optional<std::type_index> type = {};  ///< the object's
  Value value = {};
  Status status = {};
};
using Resources = std::unordered_map<uint64_t, std::shared_ptr<const Resource>>;

}  // namespace detail

/// The context of a call on a worker, for a function whose first parameter is `const CallContext&`.
/// Valid during the call. Threads: any.
class STRATA_API CallContext {
 public:
  /// The task that runs the function, and the number of tasks of the job "worker".
  const cluster::TaskId& worker() const { return worker_; }
  int num_workers() const { return num_workers_; }

  /// Requests a stop when the result is no longer needed: the coordinator has an error to raise, or
  /// was lost. Long functions check it from time to time, and throw kCancelled.
  std::stop_token stop() const { return stop_; }
  /// @throws Error  kCancelled: as above.
  void throw_if_stopped() const;

  // For WorkerServer and the registry.
  CallContext(cluster::TaskId worker, int num_workers, std::stop_token stop,
              detail::Resources resources)
      : worker_(std::move(worker)),
        num_workers_(num_workers),
        stop_(std::move(stop)),
        resources_(std::move(resources)) {}
  /// @throws Error  the error of its construction; kInternal: it does not exist.
  const detail::Resource& resource(ResourceId id) const;

 private:
  const cluster::TaskId worker_;
  const int num_workers_;
  const std::stop_token stop_;
  const detail::Resources resources_;  // the arguments of this call
};

}  // namespace strata::ps
