#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/checkpoint/state.h"
#include "strata/core/export.h"
#include "strata/data/iterator.h"
#include "strata/optim/metrics.h"
#include "strata/optim/optimizer.h"
#include "strata/runtime/variable.h"

namespace strata {

namespace detail {

/// data::Iterator, DistributedDataset::Iterator, and user-defined iterators.
template <typename T>
concept HasPosition = requires(T& iterator, const data::Position& position) {
  { std::as_const(iterator).position() } -> std::convertible_to<data::Position>;
  iterator.restore(position);
};

/// Objects such as keras metrics that define their saved state themselves.
template <typename T>
concept HasTracked = requires(const T& object) {
  { object.tracked() } -> std::convertible_to<std::shared_ptr<Trackable>>;
};

/// Replicated<Module>.
template <typename T>
concept HasModules = requires(const T& net) {
  { net.parameters() } -> std::convertible_to<std::vector<Variable>>;
  { net.buffers() } -> std::convertible_to<std::vector<Variable>>;
  net.shared();
};

STRATA_API TensorState state_of(const Variable& variable, const std::string& name);

template <typename T>
class TrackedIterator final : public Trackable {
 public:
  explicit TrackedIterator(T& iterator) : iterator_(iterator) {}
  ObjectState state() override {
    return {.values = {{.name = "position",
                        .read = [this] { return iterator_.position().to_string(); },
                        .write =
                            [this](const CheckpointValue& value) {
                              iterator_.restore(data::Position::from_string(
                                  checkpoint_value<std::string>(value)));
                            }}},
            .continues_run = true};
  }

 private:
  T& iterator_;
};

template <typename T>
class TrackedModule final : public Trackable {
 public:
  explicit TrackedModule(const T& net) : net_(net) {}
  ObjectState state() override {
    ObjectState state;
    for (const Variable& each : net_.parameters())
      state.tensors.push_back(state_of(each, each.name()));
    for (const Variable& each : net_.buffers())
      state.tensors.push_back(state_of(each, each.name()));
    return state;
  }
  void settle() override { net_.shared()->sync_from_master(); }
  void after_restore() override { net_.shared()->invalidate_master(); }

 private:
  T net_;  // a handle
};

}  // namespace detail

/// An object of a checkpoint. Everything that has state converts to it implicitly:
///
///     Checkpoint({{"model", net}, {"optimizer", adam}, {"step", step}, {"input", iterator}})
///
/// Objects that are not handles (optimizers, iterators, numbers, strings, tensors, vectors) are
/// referred to: they must outlive the checkpoint and keep their address.
class STRATA_API Tracked {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Tracked(std::shared_ptr<Trackable> object);
  Tracked(Trackable& object);

  Tracked(const Variable& variable);
  Tracked(const std::vector<Variable>& variables);  ///< By index.
  /// Iterations, the learning rate unless a schedule makes it, slots by variable.
  Tracked(optimizers::Optimizer& optimizer);
  Tracked(const metrics::Mean& mean);
  Tracked(const metrics::Sum& sum);

  Tracked(bool& value);
  Tracked(int& value);
  Tracked(int64_t& value);
  Tracked(double& value);
  Tracked(std::string& value);
  Tracked(at::Tensor& tensor);           ///< Restoring replaces it; it may be undefined before.
  Tracked(std::vector<double>& values);  ///< May have any length: a history.

  /// Groups names of its own below this one.
  Tracked(std::vector<std::pair<std::string, Tracked>> group);

  template <typename T>
  requires detail::HasPosition<T> &&(!std::derived_from<T, Trackable>)Tracked(T& iterator)
      : Tracked(std::make_shared<detail::TrackedIterator<T>>(iterator)) {}

  template <typename T>
  requires detail::HasModules<T> &&(!std::derived_from<T, Trackable>)Tracked(const T& net)
      : Tracked(std::make_shared<detail::TrackedModule<T>>(net)) {}

  template <typename T>
  requires detail::HasTracked<T> &&(!std::derived_from<T, Trackable>)Tracked(const T& object)
      : Tracked(std::shared_ptr<Trackable>(object.tracked())) {}
  // NOLINTEND(google-explicit-constructor)

  const std::shared_ptr<Trackable>& object() const { return object_; }

 private:
  std::shared_ptr<Trackable> object_;
};

}  // namespace strata
