#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "strata/cluster/task_id.h"
#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/ps/value.h"

namespace strata::ps {

namespace detail {

/// What a worker has for one ResourceId: an object that a factory has made, or what a function has
/// returned, or why there is neither.
struct Resource {
  std::string name;  ///< of the factory or function
  std::shared_ptr<void> object = {};
  std::optional<std::type_index> type = {};  ///< of the object
  Value value = {};
  Status status = {};
};
using Resources = std::unordered_map<uint64_t, std::shared_ptr<const Resource>>;

}  // namespace detail

/// What a function on a worker may ask about its call: a first parameter `const CallContext&`.
/// Valid during the call. Threads: any.
class STRATA_API CallContext {
 public:
  /// Where the function runs, and how many tasks the job "worker" has.
  const cluster::TaskId& worker() const { return worker_; }
  int num_workers() const { return num_workers_; }

  /// Stops when nobody waits for the result any more: the coordinator has an error to raise, or is
  /// gone. What takes long looks at it now and then, and throws kCancelled.
  std::stop_token stop() const { return stop_; }
  /// @throws Error  kCancelled: as above.
  void throw_if_stopped() const;

  // For the worker that makes it, and for the registry.
  CallContext(cluster::TaskId worker, int num_workers, std::stop_token stop,
              detail::Resources resources)
      : worker_(std::move(worker)),
        num_workers_(num_workers),
        stop_(std::move(stop)),
        resources_(std::move(resources)) {}
  /// @throws Error  the error that it could not be made with; kInternal: there is none.
  const detail::Resource& resource(ResourceId id) const;

 private:
  const cluster::TaskId worker_;
  const int num_workers_;
  const std::stop_token stop_;
  const detail::Resources resources_;  // those that are arguments of this call
};

}  // namespace strata::ps
