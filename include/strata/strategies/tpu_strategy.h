#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/strategies/strategy.h"

namespace strata {

namespace pjrt {
class Client;
}
namespace tpu {
class TpuRunner;
}

struct TPUClusterResolverOptions {
  /// The file of the plugin that compiles for the cores. Empty: what STRATA_PJRT_PLUGIN names, else
  /// TPU_LIBRARY_PATH.
  std::string plugin = {};
  /// More than 0: the plugin is XLA's for CPUs, and makes as many devices of this machine, for tests.
  int64_t cpu_devices = 0;
};

/// The cores of this host, behind a PJRT plugin (libtpu.so). Copies are the same connection.
/// Source: tf.distribute.cluster_resolver.TPUClusterResolver.
class STRATA_API TPUClusterResolver {
 public:
  /// Opens the plugin and connects to its devices; once opened it stays until the program ends.
  /// @throws Error  kNotFound: no plugin, or no such file; says how to get one. The plugin's.
  explicit TPUClusterResolver(const TPUClusterResolverOptions& options = {});

  /// "tpu", "cpu".
  std::string platform() const;
  int64_t num_accelerators() const;
  const std::shared_ptr<const pjrt::Client>& client() const { return client_; }

 private:
  std::shared_ptr<const pjrt::Client> client_;
};

struct TPUOptions {
  // Results.
  /// Replicas, one a core; 0: as many as there are cores.
  int64_t num_replicas = 0;
  /// The seed of the random streams; unset: libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};
  /// The limit of a wait for a run.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // Performance.
  /// Runs that may be under way on the cores at once: inputs of the next ones are copied meanwhile, and take the cores'
  /// memory. 1: each run's inputs are there before the last one ends, and it begins behind that.
  int64_t runs_in_flight = 2;
};

/// Synchronous training on the cores of TPUs (docs/tpu.md): a replica on each, variables mirrored on all. A step
/// is recorded as by strata::function, compiled once, and run on all cores; what it reads and writes stays on
/// them from step to step, and is copied when `Variable::value` is called outside `run`. `run` takes a
/// strata::function alone; `fit` and the like are as elsewhere, and the batches of one
/// `steps_per_execution` are one run of a loop on the cores.
///
/// Sums are the compiler's: weights are MirroredStrategy's up to rounding. Random numbers are others.
/// Source: tf.distribute.TPUStrategy.
class STRATA_API TPUStrategy : public Strategy {
 public:
  /// @throws Error  kInvalidArgument: more replicas than cores.
  explicit TPUStrategy(const TPUClusterResolver& resolver = TPUClusterResolver(),
                       const TPUOptions& options = {});

  /// Copies variables, slots and buffers from the cores, if steps have written them since.
  /// `Variable::value` outside `run` does so by itself; call it before reading modules.
  void fetch();
  /// How many programs were compiled: one for each step, sizes of its inputs, and number of steps a run.
  int64_t compilation_count() const;
  /// How many runs had their inputs on the cores before the run before them had ended.
  int64_t runs_ahead_count() const;

 private:
  TPUStrategy(const TPUClusterResolver& resolver, const TPUOptions& options, int64_t num_replicas);
  void do_refresh() override;

  std::shared_ptr<tpu::TpuRunner> runner_;
};

}  // namespace strata
