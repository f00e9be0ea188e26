#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/collective/communication_options.h"
#include "strata/core/export.h"
#include "strata/runtime/replicated.h"

namespace strata {

struct DistributedDataParallelOptions {
  /// Finds the cluster of this process; null: from its launcher (TF_CONFIG, mpirun, srun,
  /// Kubernetes). Without a cluster nothing is exchanged.
  std::shared_ptr<const cluster::ClusterResolver> cluster_resolver = {};
  collective::CommunicationOptions communication_options = {};
  cluster::ServerOptions server = {};
  /// As MultiWorkerMirroredOptions: this process may use a GPU that another one uses.
  bool share_gpus = false;
  /// Broadcasts the chief's buffers (running statistics) after every backward.
  bool broadcast_buffers = true;
};

namespace detail {

/// The part of DistributedDataParallel that does not depend on the module's type.
class STRATA_API DataParallelCore {
 public:
  DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                   const DistributedDataParallelOptions& options);
  ~DataParallelCore();

  int rank() const;
  int world_size() const;
  void set_sync(bool sync);
  bool sync() const;
  void join();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace detail

/// A module of this process, trained together with those of the others: one replica for each
/// process.
///
///     strata::DistributedDataParallel net(Net());                   // 1: joins the others
///     auto rows = dataset.shard(net.world_size(), net.rank());      // 2: its rows
///     ...                                                           // the loop of one device
///     net.join();                                                   // 3: until all are done
///
/// The parameters become the chief's. At the end of each backward that reaches a parameter, `.grad`
/// of all parameters is the mean over the processes that computed one (with no_sync's before it).
/// The gradients are reduced while backward still runs, in buckets. A parameter that no process has
/// used keeps its `.grad`.
///
/// Modules that are on a GPU each are summed from card to card, as `communication_options` say
/// (docs/gpu.md): move the module there first (`module->to(gpu)`). Over the hosts go those of which some
/// are on CPUs, or on several GPUs, or share a GPU.
///
/// Every process makes as many synchronized backwards; if one may have fewer batches, all end with
/// `join`. Errors are those of MultiWorkerMirroredStrategy: all others name a lost process.
/// Threads: one, that of the training loop. CPU and GPU.
/// Source: torch.nn.parallel.DistributedDataParallel.
template <typename Module>
class DistributedDataParallel {
 public:
  using Maker = detail::ModuleOf<Module>;
  using Type = typename Maker::type;

  /// @param module  A module, a holder made by TORCH_MODULE, or a shared_ptr.
  /// @throws Error  as MultiWorkerMirroredStrategy.
  explicit DistributedDataParallel(Module module,
                                   const DistributedDataParallelOptions& options = {})
      : module_(make(std::move(module))), core_(module_, options) {}

  Type* operator->() const { return module_.get(); }
  Type& operator*() const { return *module_; }
  const std::shared_ptr<Type>& ptr() const { return module_; }

  int rank() const { return core_.rank(); }
  int world_size() const { return core_.world_size(); }
  bool is_chief() const { return rank() == 0; }

  /// While one exists, backward leaves `.grad` to this process alone, and communicates nothing: gradients of
  /// several batches add up, and are reduced once, by the first backward after it.
  class NoSync {
   public:
    explicit NoSync(detail::DataParallelCore& core) : core_(core), before_(core.sync()) {
      core_.set_sync(false);
    }
    ~NoSync() { core_.set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    detail::DataParallelCore& core_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(core_); }

  /// Declares that this process has no more batches: it takes part, without a gradient, in the
  /// backwards of the processes that have. Returns when all have called it.
  void join() { core_.join(); }

 private:
  static std::shared_ptr<Type> make(Module module) {
    auto give = [&]() -> Module { return std::move(module); };
    return Maker::make(give);
  }

  std::shared_ptr<Type> module_;
  detail::DataParallelCore core_;
};

}  // namespace strata
