#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/collective/communication_options.h"
#include "strata/core/export.h"
#include "strata/runtime/cross_device_ops.h"
#include "strata/strategies/standalone.h"
#include "strata/strategies/strategy.h"

namespace strata {

struct MirroredOptions {
  // Results.
  /// {"cpu:0", "cpu:1"}; empty: all GPUs, else every logical CPU.
  std::vector<std::string> devices = {};
  /// The seed of the random streams; unset: libtorch's (torch::manual_seed).
  std::optional<uint64_t> seed = {};
  std::shared_ptr<CrossDeviceOps> cross_device_ops = {};  ///< Null: chosen for the devices.
  /// The limit of a wait between replicas.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);

  /// "standalone": the replicas are on `standalone.servers`, `devices` on each (default: {"cpu:0"}), and
  /// `run` takes a strata::function alone, whose graph they run (docs/standalone.md).
  ClientMode client = {};
  StandaloneOptions standalone = {};

  // Performance.
  /// How gradients of replicas that have a GPU each are summed, if `cross_device_ops` is null:
  /// `order` (kAny: NCCL adds as it likes, where this machine has it) and `bytes_per_pack`. CPUs and
  /// others need no choice.
  collective::CommunicationOptions communication_options = {};
  /// Each of n GPUs keeps and updates the slots (Adam's moments, for example) of its n-th of the elements,
  /// as MultiWorkerMirroredOptions::shard_optimizer_state says. Not with `cross_device_ops`. Replicas on
  /// CPUs have one copy between them in any case.
  bool shard_optimizer_state = false;
  ReplicaOptions replicas = {};
};

/// Synchronous training on the devices of this machine: a replica on each, every variable mirrored
/// on all, gradients summed over them in each step. With the same number of replicas and seed the
/// weights are the same bits on any cores of one kind, with any threads, run slots and storage.
/// Source: tf.distribute.MirroredStrategy.
class STRATA_API MirroredStrategy : public Strategy, public ClientSession {
 public:
  /// @throws Error  kInvalidArgument: a device named twice, or not a device name.
  ///                kNotFound: no such device; tells how to make logical ones.
  /// With client = "standalone" also as wire::Transport::connect; kNotFound: the servers do not have the
  ///   session.
  explicit MirroredStrategy(const MirroredOptions& options = {});

 private:
  struct Placed;
  explicit MirroredStrategy(Placed placed);
  void do_refresh() override;
};

}  // namespace strata
