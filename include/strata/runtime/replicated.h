#pragma once

#include <torch/csrc/Export.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/runtime/variable.h"

namespace torch::nn {
class TORCH_API Module;
}

namespace strata {

/// What the replicas' modules keep apart from parameters (running statistics and the like) in
/// `run`, and how it becomes one value outside.
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
  /// @param modules  One per replica of this process, and one that stands for all of them outside
  ///   `run`; not for one replica that has no mirrors.
  /// @param more  Makes another one.
  static std::shared_ptr<ReplicatedModules> make(
      ReplicaGroup& group, std::vector<std::shared_ptr<torch::nn::Module>> modules,
      std::function<std::shared_ptr<torch::nn::Module>()> more, const ReplicateOptions& options);

  /// Index of the module that this thread's context means.
  size_t current();

  const std::vector<Variable>& parameters() const { return parameters_; }
  const std::vector<Variable>& buffers() const { return buffers_; }

  /// Gives every replica now what was done to the outside module; else the next run does.
  void sync_from_master();
  /// The outside module's buffers are made anew at the next look: the variables were written to.
  void invalidate_master();

  void before_run() override;
  void on_run_begin(int replica) override;
  void on_run_end(int replica) override;
  void on_resize() override;

 private:
  ReplicatedModules(ReplicaGroup& group, std::vector<std::shared_ptr<torch::nn::Module>> modules,
                    std::function<std::shared_ptr<torch::nn::Module>()> more,
                    const ReplicateOptions& options);

  /// The module that stands for all replicas outside `run`: its parameters are the storage of the
  /// copy that counts, its buffers are made anew on the first look after a run.
  struct Outside {
    size_t index;  // among the modules
    std::vector<torch::nn::Module*> parts;
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> buffers;
    uint64_t shown_step = 0;  // the run after which the buffers were made
  };
  /// State of a tensor; another one later means that the user wrote to it or gave it other storage.
  struct Seen {
    const void* data = nullptr;
    int64_t version = -1;
    bool operator==(const Seen&) const = default;
  };
  static Seen state_of(const at::Tensor& tensor);
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
  int runs_untaken_ = 0;              // runs that left gradients that no optimizer of strata takes
  std::unique_ptr<Outside> outside_;  // null for one replica
  // By replica: the outside's state when the replica last took its values, or gave it its own.
  std::vector<std::vector<Seen>> seen_parameters_;
  std::vector<std::vector<Seen>> seen_buffers_;
};

/// The module type and shared pointer behind what a factory returns: a module, a holder made by
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

/// A `torch::nn::Module` on every replica, with equal weights (the first process's). `net->` is the
/// calling replica's module inside `run`, and outside a module with the cross-replica values:
/// parameters, buffers by `BufferPolicy`. What is done to the outside module between runs
/// (`eval()`, loading weights, new buffer values) holds for every replica from the next run on.
///
/// Copies of a handle are the same module. Made by `Strategy::replicate`.
template <typename Module>
class Replicated {
 public:
  using Modules = std::vector<std::shared_ptr<Module>>;

  /// @param modules  The same as `shared` has, and those that it makes later.
  Replicated(std::shared_ptr<Modules> modules, std::shared_ptr<detail::ReplicatedModules> shared)
      : modules_(std::move(modules)), shared_(std::move(shared)) {}

  Module* operator->() const { return ptr().get(); }
  Module& operator*() const { return *ptr(); }
  /// For torch::save and the like.
  const std::shared_ptr<Module>& ptr() const { return (*modules_)[shared_->current()]; }

  /// Parameters that want gradients when asked, in the module's order; tied ones once.
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

  /// For checkpoints.
  const std::shared_ptr<detail::ReplicatedModules>& shared() const { return shared_; }

 private:
  std::shared_ptr<Modules> modules_;
  std::shared_ptr<detail::ReplicatedModules> shared_;
};

}  // namespace strata
