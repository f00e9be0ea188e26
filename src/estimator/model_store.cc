#include "estimator/model_store.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <set>
#include <utility>

#include "strata/core/error.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/model.h"

namespace strata::estimator::detail {
namespace {

class NamedVariables final : public Trackable {
 public:
  explicit NamedVariables(std::vector<NamedVariable> variables)
      : variables_(std::move(variables)) {}
  ObjectState state() override {
    ObjectState state;
    for (const auto& [name, variable] : variables_) {
      state.tensors.push_back(strata::detail::state_of(variable, name));
    }
    return state;
  }

 private:
  std::vector<NamedVariable> variables_;
};

/// Slots by the variables' names in checkpoints. It must not outlive the store.
class NamedSlots final : public Trackable {
 public:
  NamedSlots(const ModelStore& store, optimizers::Optimizer& optimizer)
      : store_(store), by_class_(Tracked(optimizer).object()) {}
  ObjectState state() override {
    ObjectState state = by_class_->state();
    for (TensorState& tensor : state.tensors) tensor.name = store_.slot_name(tensor.name);
    return state;
  }

 private:
  const ModelStore& store_;
  std::shared_ptr<Trackable> by_class_;
};

}  // namespace

const std::any* ModelStore::find(const std::string& name, const std::type_info& type,
                                 bool building) const {
  const auto found = handles_.find(name);
  if (found == handles_.end()) {
    STRATA_CHECK(building, kFailedPrecondition, "[estimator] ModelContext: got '", name,
                 "' for the first time in a step; the model_fn's first call (building()) must ask ",
                 "for everything that later ones use");
    return nullptr;
  }
  STRATA_CHECK(found->second.type() == type, kInvalidArgument, "[estimator] ModelContext: got '",
               name, "' for something of another class than what has this name; choose another");
  return &found->second;
}

void ModelStore::add(const std::string& name, std::any handle) {
  STRATA_CHECK(!name.empty(), kInvalidArgument,
               "[estimator] ModelContext: got an empty name; expected one that later calls find ",
               "it by");
  handles_.emplace(name, std::move(handle));
}

void ModelStore::add_layer(const std::string& name, const keras::Layer& layer) {
  makers_.push_back({.name = name, .layer = layer});
}

void ModelStore::add_optimizer(const std::string& name, optimizers::AnyOptimizer optimizer,
                               std::string prefix) {
  optimizers_.emplace_back(name, std::move(optimizer));
  prefixes_.push_back(std::move(prefix));
}

void ModelStore::add_named(const std::string& name, const Variable& variable) {
  for (const NamedVariable& each : variables_) {
    if (each.variable.is_same(variable)) return;
    STRATA_CHECK(each.name != name, kInvalidArgument,
                 "[estimator] model_fn: got two variables called '", name,
                 "'; checkpoints find them by their names, so each needs one of its own");
  }
  variables_.push_back({name, variable});
}

/// The weights of a layer and of those within it, by the way to them.
void ModelStore::collect(const std::string& name, const keras::Layer& layer) {
  for (const keras::Weight& weight : layer->own_weights()) {
    add_named(name + '/' + weight.name, weight.variable);
  }
  for (const auto& [inner, sublayer] : layer->sublayers()) collect(name + '/' + inner, sublayer);
}

void ModelStore::finish() {
  for (const Maker& maker : makers_) {
    if (maker.variable) {
      add_named(maker.name, *maker.variable);
    } else if (dynamic_cast<const keras::ModelImpl*>(maker.layer->impl().get()) != nullptr) {
      // A model's layers have names of their own.
      for (const keras::Weight& weight : (*maker.layer)->weights()) {
        add_named(weight.variable.name(), weight.variable);
      }
    } else {
      collect(maker.name, *maker.layer);
    }
  }
  std::set<std::string> frozen;
  for (const Maker& maker : makers_) {
    if (!maker.layer) continue;
    for (const Variable& each : (*maker.layer)->non_trainable_variables()) {
      frozen.insert(each.name());
    }
  }
  for (size_t i = 0; i < optimizers_.size(); ++i) {
    auto& [name, optimizer] = optimizers_[i];
    if (!optimizer->variables().empty()) continue;
    std::vector<Variable> trained;
    for (const auto& [variable_name, variable] : variables_) {
      if (variable.trainable() && !frozen.contains(variable.name()) &&
          variable_name.starts_with(prefixes_[i])) {
        trained.push_back(variable);
      }
    }
    STRATA_CHECK(!trained.empty(), kInvalidArgument, "[estimator] model_fn: optimizer '", name,
                 "' has no trainable variable",
                 prefixes_[i].empty() ? "" : " whose name begins with '" + prefixes_[i] + "'",
                 "; make layers and variables by the ModelContext");
    optimizer->build(std::move(trained));
  }
}

void ModelStore::reset_metrics() const {
  for (const auto& reset : resets_) reset();
}

at::Tensor ModelStore::penalties() const {
  at::Tensor sum;
  for (const Maker& maker : makers_) {
    if (!maker.layer) continue;
    const at::Tensor penalty = (*maker.layer)->regularization_loss();
    if (penalty.defined()) sum = sum.defined() ? sum + penalty : penalty;
  }
  return sum;
}

std::string ModelStore::slot_name(const std::string& name) const {
  const NamedVariable* longest = nullptr;
  for (const NamedVariable& each : variables_) {
    const std::string& of_class = each.variable.name();
    if (name.starts_with(of_class + '/') &&
        (longest == nullptr || of_class.size() > longest->variable.name().size())) {
      longest = &each;
    }
  }
  if (longest == nullptr) return name;  // a number of the whole optimizer
  return longest->name + name.substr(longest->variable.name().size());
}

Tracked ModelStore::tracked_variables() const {
  return {std::make_shared<NamedVariables>(variables_)};
}

Tracked ModelStore::tracked_untrained_variables() const {
  std::vector<NamedVariable> untrained;
  for (const NamedVariable& each : variables_) {
    const bool trained = std::ranges::any_of(optimizers_, [&](const auto& named) {
      return std::ranges::any_of(named.second->variables(), [&](const Variable& variable) {
        return variable.is_same(each.variable);
      });
    });
    if (!trained) untrained.push_back(each);
  }
  return {std::make_shared<NamedVariables>(std::move(untrained))};
}

Tracked ModelStore::tracked(optimizers::Optimizer& optimizer) const {
  return {std::make_shared<NamedSlots>(*this, optimizer)};
}

}  // namespace strata::estimator::detail
