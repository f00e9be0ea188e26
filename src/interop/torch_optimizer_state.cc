#include "interop/torch_optimizer_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <string>
#include <utility>

#include "strata/core/error.h"

namespace strata::interop::detail {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

/// What torch::optim keeps of one variable, by libtorch's names.
struct Fields {
  std::vector<std::pair<std::string, at::Tensor*>> tensors = {};
  int64_t* step = nullptr;
};

template <typename State, typename Options>
Fields fields_of_adam(State& state, const Options& options) {
  Fields fields{.tensors = {{"exp_avg", &state.exp_avg()}, {"exp_avg_sq", &state.exp_avg_sq()}},
                .step = &state.step()};
  if (options.amsgrad()) fields.tensors.emplace_back("max_exp_avg_sq", &state.max_exp_avg_sq());
  return fields;
}

Fields fields_of(torch::optim::AdamParamState& state, const torch::optim::AdamOptions& options) {
  return fields_of_adam(state, options);
}
Fields fields_of(torch::optim::AdamWParamState& state, const torch::optim::AdamWOptions& options) {
  return fields_of_adam(state, options);
}
Fields fields_of(torch::optim::SGDParamState& state, const torch::optim::SGDOptions& options) {
  Fields fields;
  if (options.momentum() != 0) {
    fields.tensors.emplace_back("momentum_buffer", &state.momentum_buffer());
  }
  return fields;
}
Fields fields_of(torch::optim::RMSpropParamState& state,
                 const torch::optim::RMSpropOptions& options) {
  Fields fields{.tensors = {{"square_avg", &state.square_avg()}}, .step = &state.step()};
  if (options.momentum() > 0) {
    fields.tensors.emplace_back("momentum_buffer", &state.momentum_buffer());
  }
  if (options.centered()) fields.tensors.emplace_back("grad_avg", &state.grad_avg());
  return fields;
}
Fields fields_of(torch::optim::AdagradParamState& state, const torch::optim::AdagradOptions&) {
  return {.tensors = {{"sum", &state.sum()}}, .step = &state.step()};
}

/// A class of torch::optim.
struct Kind {
  bool (*fits)(const Optimizer& optimizer);
  std::unique_ptr<OptimizerParamState> (*make)();
  Fields (*fields)(OptimizerParamState& state, const OptimizerOptions& options);
};

template <typename O, typename State, typename Options>
constexpr Kind kind_of() {
  return {
      .fits = [](const Optimizer& each) { return dynamic_cast<const O*>(&each) != nullptr; },
      .make = []() -> std::unique_ptr<OptimizerParamState> { return std::make_unique<State>(); },
      .fields =
          [](OptimizerParamState& state, const OptimizerOptions& options) {
            return fields_of(static_cast<State&>(state), static_cast<const Options&>(options));
          }};
}

namespace optim = torch::optim;
constexpr Kind kKinds[] = {
    kind_of<optim::Adam, optim::AdamParamState, optim::AdamOptions>(),
    kind_of<optim::AdamW, optim::AdamWParamState, optim::AdamWOptions>(),
    kind_of<optim::SGD, optim::SGDParamState, optim::SGDOptions>(),
    kind_of<optim::RMSprop, optim::RMSpropParamState, optim::RMSpropOptions>(),
    kind_of<optim::Adagrad, optim::AdagradParamState, optim::AdagradOptions>(),
};

const Kind& kind_for(const Optimizer& optimizer) {
  for (const Kind& kind : kKinds) {
    if (kind.fits(optimizer)) return kind;
  }
  throw Error(ErrorCode::kUnimplemented,
              "[torch_optimizer] checkpoint: got a user-defined class, whose state is not known; "
              "expected Adam, AdamW, SGD, RMSprop or Adagrad");
}

class TrackedTorchOptimizer final : public Trackable {
 public:
  TrackedTorchOptimizer(std::vector<OwnedVariable> variables, Optimizer& front)
      : kind_(kind_for(front)), variables_(std::move(variables)), front_(front) {}

  ObjectState state() override {
    ObjectState state;
    state.continues_run = true;
    for (size_t g = 0; g < front_.param_groups().size(); ++g) {
      const std::string name = front_.param_groups().size() == 1
                                   ? "learning_rate"
                                   : str_cat("group_", g, "/learning_rate");
      state.values.push_back({.name = name,
                              .read = [this, g] { return options(g).get_lr(); },
                              .write =
                                  [this, g](const CheckpointValue& value) {
                                    options(g).set_lr(
                                        strata::detail::checkpoint_value<double>(value));
                                  }});
    }
    restored_.clear();
    restored_.resize(variables_.size());
    for (size_t i = 0; i < variables_.size(); ++i) list(i, state);
    return state;
  }

  void after_restore() override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < variables_.size(); ++i) {
      Restored& restored = restored_[i];
      if (!restored.touched) continue;
      auto& states = variables_[i].optimizer->state();
      if (!restored.exists) {
        states.erase(key(i));
        continue;
      }
      states[key(i)] = std::move(restored.state);
    }
    restored_.clear();
  }

 private:
  /// A variable's state as a restore leaves it, until all of it is there.
  struct Restored {
    bool touched = false;
    bool exists = false;  ///< libtorch makes it in the first step that has a gradient.
    std::unique_ptr<OptimizerParamState> state = {};
  };

  OptimizerOptions& options(size_t group) { return front_.param_groups()[group].options(); }
  OptimizerOptions& options_of(const Variable& variable) {
    const void* tensor = variable.on_replica(0).unsafeGetTensorImpl();
    for (auto& group : front_.param_groups()) {
      for (const at::Tensor& each : group.params()) {
        if (each.unsafeGetTensorImpl() == tensor) return group.options();
      }
    }
    throw Error(ErrorCode::kInternal, "[torch_optimizer] a variable is in no group");
  }
  const at::Tensor& tensor(size_t i) const {
    return variables_[i].variable.on_replica(variables_[i].owner);
  }
  void* key(size_t i) const { return tensor(i).unsafeGetTensorImpl(); }

  OptimizerParamState* present(size_t i) const {
    auto& states = variables_[i].optimizer->state();
    const auto found = states.find(key(i));
    return found == states.end() ? nullptr : found->second.get();
  }
  Fields present_fields(size_t i) {
    OptimizerParamState* state = present(i);
    return state == nullptr ? Fields{} : kind_.fields(*state, options_of(variables_[i].variable));
  }
  Fields restored_fields(size_t i) {
    Restored& restored = restored_.at(i);
    restored.touched = true;
    if (restored.state == nullptr) restored.state = kind_.make();
    return kind_.fields(*restored.state, options_of(variables_[i].variable));
  }

  void list(size_t i, ObjectState& state) {
    const std::string prefix = variables_[i].variable.name() + '/';
    const auto unused = kind_.make();
    const Fields fields = kind_.fields(*unused, options_of(variables_[i].variable));
    if (fields.tensors.empty()) return;
    state.values.push_back({.name = prefix + "exists",
                            .read = [this, i] { return present(i) != nullptr; },
                            .write =
                                [this, i](const CheckpointValue& value) {
                                  restored_fields(i);
                                  restored_[i].exists =
                                      strata::detail::checkpoint_value<bool>(value);
                                }});
    if (fields.step != nullptr) {
      state.values.push_back({.name = prefix + "step",
                              .read =
                                  [this, i] {
                                    const Fields now = present_fields(i);
                                    return now.step == nullptr ? int64_t{0} : *now.step;
                                  },
                              .write =
                                  [this, i](const CheckpointValue& value) {
                                    *restored_fields(i).step =
                                        strata::detail::checkpoint_value<int64_t>(value);
                                  }});
    }
    for (size_t f = 0; f < fields.tensors.size(); ++f) {
      state.tensors.push_back(
          {.name = prefix + fields.tensors[f].first,
           .dtype = tensor(i).scalar_type(),
           .sizes = tensor(i).sizes().vec(),
           .read =
               [this, i, f] {
                 const Fields now = present_fields(i);
                 const bool there = !now.tensors.empty() && now.tensors[f].second->defined();
                 return there ? *now.tensors[f].second : at::zeros_like(tensor(i).detach());
               },
           .write =
               [this, i, f](const at::Tensor& value) {
                 at::Tensor made = at::zeros_like(tensor(i).detach());
                 *restored_fields(i).tensors[f].second = made.copy_(value);
               }});
    }
  }

  const Kind& kind_;
  const std::vector<OwnedVariable> variables_;
  Optimizer& front_;
  std::vector<Restored> restored_;  // by variable
};

}  // namespace

std::shared_ptr<Trackable> track_torch_optimizer(std::vector<OwnedVariable> variables,
                                                 Optimizer& front) {
  return std::make_shared<TrackedTorchOptimizer>(std::move(variables), front);
}

}  // namespace strata::interop::detail
