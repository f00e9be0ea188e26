#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/runtime/variable.h"

namespace torch::nn {
class Module;
}

namespace strata {

/// The treatment of the replicas' buffers (running statistics, for example): how they become one
/// value outside `run`.
enum class BufferPolicy {
  kMeanOnRead,   ///< Each replica writes its own copy; outside, floats are their mean and others
                 ///< replica 0's. TensorFlow's rule for moving statistics.
  kFirstOnRead,  ///< Each replica writes its own copy; outside, replica 0's counts.
};

struct ReplicateOptions {
  BufferPolicy buffers = BufferPolicy::kMeanOnRead;
};

namespace detail {

/// The part of Replicated<M> that does not depend on M: parameters and buffers of all the modules
/// as variables, and their upkeep between runs.
class STRATA_API ReplicatedModules : public RunObserver {
 public:
  /// The number of modules that `make` takes: one per replica of this process, and one for the time
  /// outside `run`, unless the only replica's, which has the variables themselves, serves there.
  /// @throws Error  kFailedPrecondition: called by a replica function.
  static int count(const ReplicaGroup& group);
  /// @param more  Makes another one.
  static std::shared_ptr<ReplicatedModules> make(
      ReplicaGroup& group, std::vector<std::shared_ptr<torch::nn::Module>> modules,
      std::function<std::shared_ptr<torch::nn::Module>()> more, const ReplicateOptions& options);

  /// Index of the module of this thread's context.
  size_t current();

  const std::vector<Variable>& parameters() const { return parameters_; }
  const std::vector<Variable>& buffers() const { return buffers_; }

  /// Copies changes of the outside module to every replica now; else the next run does.
  void sync_from_master();
  /// Makes the outside module read its buffers again at the next access: the variables were
  /// written.
  void invalidate_master();

  void before_run() override;
  void on_run_begin(int replica) override;
  void on_run_end(int replica) override;
  void on_resize() override;

 private:
  ReplicatedModules(ReplicaGroup& group, std::vector<std::shared_ptr<torch::nn::Module>> modules,
                    std::function<std::shared_ptr<torch::nn::Module>()> more,
                    const ReplicateOptions& options);

  /// The module that represents all replicas outside `run`: its parameters are the storage of the
  /// central copy, its buffers are made anew on the first access after a run.
  struct MasterModule {
    size_t index;  // among the modules
    std::vector<torch::nn::Module*> parts;
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> buffers;
    uint64_t shown_step = 0;  // the run after which the buffers were made
  };
  /// State of a tensor; another one later means that the user wrote to it or gave it other storage.
  struct TensorVersion {
    const void* data = nullptr;
    int64_t version = -1;
    bool operator==(const TensorVersion&) const = default;
  };
  static TensorVersion state_of(const at::Tensor& tensor);
  void show_outside();
  void look_for_untaken_gradients();
  void take_parameter(size_t index, int replica);
  void take_buffer(size_t index, int replica);

  std::shared_ptr<ReplicaGroup> group_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::function<std::shared_ptr<torch::nn::Module>()> more_;
  std::vector<size_t> index_of_replica_;                // among the modules
  std::vector<std::vector<torch::nn::Module*>> parts_;  // of each module
  std::vector<Variable> parameters_;
  std::vector<Variable> buffers_;
  int runs_untaken_ = 0;  // runs that left gradients that no strata optimizer has taken
  std::unique_ptr<MasterModule> outside_;  // null for one replica
  // By replica: the outside module's state when the replica last read it, or wrote to it.
  std::vector<std::vector<TensorVersion>> seen_parameters_;
  std::vector<std::vector<TensorVersion>> seen_buffers_;
};

/// The module type and shared pointer of a factory's result: a module, a holder made by
/// TORCH_MODULE, or a shared_ptr.
template <typename Made>
struct ModuleOf {
  using type = Made;
  template <typename Factory>
  static std::shared_ptr<type> make(Factory& factory) {
    return std::shared_ptr<type>(new type(factory()));
  }
};
template <typename Made>
requires requires(Made made) { made.ptr(); }
struct ModuleOf<Made> {
  using type = typename Made::ContainedType;
  template <typename Factory>
  static std::shared_ptr<type> make(Factory& factory) {
    return factory().ptr();
  }
};
template <typename Module>
struct ModuleOf<std::shared_ptr<Module>> {
  using type = Module;
  template <typename Factory>
  static std::shared_ptr<type> make(Factory& factory) {
    return factory();
  }
};

}  // namespace detail

/// A `torch::nn::Module` on every replica, with equal weights (the first process's). Inside `run`,
/// `net->` is the calling replica's module; outside it is a module with the cross-replica values:
/// parameters, buffers by `BufferPolicy`. Changes of the outside module between runs (`eval()`,
/// loading weights, new buffer values) apply to every replica from the next run on.
///
/// Copies of a handle are the same module. Made by `Strategy::replicate`.
template <typename Module>
class Replicated {
 public:
  using Modules = std::vector<std::shared_ptr<Module>>;

  /// @param modules  The modules that `shared` has, and those that it makes later.
  Replicated(std::shared_ptr<Modules> modules, std::shared_ptr<detail::ReplicatedModules> shared)
      : modules_(std::move(modules)), shared_(std::move(shared)) {}

  Module* operator->() const { return ptr().get(); }
  Module& operator*() const { return *ptr(); }
  /// The module, for torch::save and similar functions.
  const std::shared_ptr<Module>& ptr() const { return (*modules_)[shared_->current()]; }

  /// The parameters that require gradients now, in the module's order; tied ones once.
  std::vector<Variable> variables() const {
    std::vector<Variable> trainable;
    for (const Variable& parameter : shared_->parameters()) {
      if (parameter.on_replica(0).requires_grad()) trainable.push_back(parameter);
    }
    return trainable;
  }
  /// All parameters, frozen ones included.
  const std::vector<Variable>& parameters() const { return shared_->parameters(); }
  const std::vector<Variable>& buffers() const { return shared_->buffers(); }

  /// The shared part, for checkpoints.
  const std::shared_ptr<detail::ReplicatedModules>& shared() const { return shared_; }

 private:
  std::shared_ptr<Modules> modules_;
  std::shared_ptr<detail::ReplicatedModules> shared_;
};

}  // namespace strata
