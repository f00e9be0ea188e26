#include "estimator/model_store.h"

#include <set>

#include "keras/default_name.h"
#include "strata/core/error.h"
#include "strata/keras/layer_impl.h"

namespace strata::estimator::detail {
namespace {

/// Names a layer, and those within it: their variables are found again by these names.
void name_layer(const keras::Layer& layer, const std::string& name) {
  {
    const keras::detail::NextDefaultName next(name);
    (void)layer.name();
  }
  for (const auto& [inner, sublayer] : layer->sublayers()) name_layer(sublayer, name + '/' + inner);
}

class NamedVariables final : public Trackable {
 public:
  explicit NamedVariables(std::vector<Variable> variables) : variables_(std::move(variables)) {}
  ObjectState state() override {
    ObjectState state;
    for (const Variable& variable : variables_) {
      state.tensors.push_back(strata::detail::state_of(variable, variable.name()));
    }
    return state;
  }

 private:
  std::vector<Variable> variables_;
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
  name_layer(layer, name);
  makers_.emplace_back(layer);
}

void ModelStore::add_optimizer(const std::string& name, optimizers::AnyOptimizer optimizer,
                               std::string prefix) {
  optimizers_.emplace_back(name, std::move(optimizer));
  prefixes_.push_back(std::move(prefix));
}

void ModelStore::finish() {
  std::set<std::string> names;
  const auto add = [&](const Variable& variable) {
    for (const Variable& each : variables_) {
      if (each.is_same(variable)) return;
    }
    STRATA_CHECK(names.insert(variable.name()).second, kInvalidArgument,
                 "[estimator] model_fn: got two variables called '", variable.name(),
                 "'; checkpoints find them by their names, so each needs one of its own");
    variables_.push_back(variable);
  };
  for (const Maker& maker : makers_) {
    if (maker.variable) add(*maker.variable);
    if (!maker.layer) continue;
    for (const keras::Weight& weight : (*maker.layer)->weights()) add(weight.variable);
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
    for (const Variable& variable : variables_) {
      if (variable.trainable() && !frozen.contains(variable.name()) &&
          variable.name().starts_with(prefixes_[i])) {
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

Tracked ModelStore::tracked() const { return {std::make_shared<NamedVariables>(variables_)}; }

}  // namespace strata::estimator::detail
