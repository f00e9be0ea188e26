#pragma once

#include <functional>
#include <memory>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/core/export.h"
#include "strata/ps/function_registry.h"
#include "strata/ps/server_limits.h"

namespace strata {

/// Options, the same in all tasks.
struct MainOptions {
  /// Finds the tasks and this process's own; null: TF_CONFIG and so on.
  std::shared_ptr<cluster::ClusterResolver> cluster_resolver = {};
  /// Wire, TLS and liveness interval, as in the strategy's options.
  cluster::ServerOptions server = {};
  /// Of a parameter server.
  ps::ServerLimits limits = {};
};

/// Implements `main` of a cluster's program. A parameter server serves until the job has ended;
/// every other task calls `train`. Meanwhile Ctrl-C ends the program between two steps. Errors are
/// printed on stderr.
///
///     int main() {
///       return strata::run_main([] { train(); });
///     }
///
/// @return the exit code (docs/errors.md): 0; 1 after an exception; 130 after Ctrl-C; that of an
///   ExitError (42 after `Preempted`).
/// Threads: the main thread. Throws nothing.
STRATA_API int run_main(const std::function<void()>& train,
                        const MainOptions& options = {}) noexcept;

/// Does the same for a program with a ClusterCoordinator: workers serve calls of `functions` until
/// the coordinator shuts down, the chief calls `coordinate`.
STRATA_API int run_main(const ps::FunctionRegistry& functions,
                        const std::function<void()>& coordinate,
                        const MainOptions& options = {}) noexcept;

}  // namespace strata
