#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "runtime/replica_group.h"
#include "strata/core/export.h"
#include "strata/runtime/replica_context.h"
#include "tensor/thread_setup.h"

/// The replica context of a thread.
namespace strata::detail {

/// The state of a thread: the group it works for, and the replica (null: all of them).
struct Context {
  ReplicaGroup* group;
  ReplicaContext* replica;
};

STRATA_API const Context& current_context();

/// Sets `context` for this thread during its lifetime.
class STRATA_API ContextGuard {
 public:
  explicit ContextGuard(const Context& context);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  Context previous_;
  std::optional<tensor::ThreadSetupGuard> one_thread_;
};

/// The group of the default strategy: one replica, the CPU, the caller's own thread and random
/// state.
STRATA_API const std::shared_ptr<ReplicaGroup>& default_group();

/// @throws Error  kFailedPrecondition, called by a replica function; names merge_call as the
/// remedy.
STRATA_API void require_cross_replica(std::string_view call);

/// @throws Error  kFailedPrecondition: this thread is in the scope of another strategy than
///   `group`'s; the default one mixes with all.
STRATA_API void require_unmixed(const ReplicaGroup& group, std::string_view call);

}  // namespace strata::detail
