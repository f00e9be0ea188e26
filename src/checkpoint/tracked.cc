#include "strata/checkpoint/tracked.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/core/error.h"

namespace strata {
namespace detail {
namespace {

constexpr std::string_view kTypeNames[] = {"a boolean", "an integer", "a number", "a string"};

template <typename T>
constexpr std::string_view name_of() {
  return kTypeNames[CheckpointValue(T()).index()];
}

/// The replicas' own values can be apart: they are written to without an agreement.
bool has_local_values(const Variable& variable) {
  const VariableState& state = *variable.state();
  // Of the group, not of this process: all processes must answer alike.
  if (state.group()->num_replicas() < 2 || state.shares_storage()) return false;
  if (state.on_read()) return true;
  if (!state.group()->placement().has_copy_per_replica()) return false;
  // What an optimizer trains is kept equal.
  return variable.aggregation() == VariableAggregation::kNone && !variable.trainable() &&
         !state.has_bound_storage();
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.detach().cpu().contiguous();
  const at::Tensor right = b.detach().cpu().contiguous();
  return left.numel() == 0 ||
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

/// Of all processes. Empty if the value that represents all of them would bring every replica's
/// back.
std::vector<at::Tensor> local_values(const Variable& variable) {
  std::vector<at::Tensor> replicas =
      gather_over_group(*variable.state()->group(), variable.state()->replicas(),
                        str_cat("replicas' own values of '", variable.name(), "'"));
  const bool equal = std::all_of(replicas.begin() + 1, replicas.end(), [&](const at::Tensor& each) {
    return same_bits(each, replicas[0]);
  });
  // v/N of a sum need not be the v that the replicas hold, even where these are equal.
  const bool sum =
      variable.state()->on_read() && variable.aggregation() == VariableAggregation::kSum;
  if (equal && !sum) return {};
  return replicas;
}

void write_replicas(const Variable& variable, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor>& replicas = variable.state()->replicas();
  const ReplicaGroup& group = *variable.state()->group();
  for (int local = 0; local < group.num_local_replicas(); ++local) {
    replicas[static_cast<size_t>(local)].detach().copy_(
        values[static_cast<size_t>(group.replica_id(local))]);
  }
  variable.state()->bump_version();
}

at::Tensor value_for_all(const Variable& variable) {
  const bool none =
      variable.state()->on_read() && variable.aggregation() == VariableAggregation::kNone;
  return (none ? variable.on_replica(0) : variable.value()).detach();
}

}  // namespace

template <typename T>
T checkpoint_value(const CheckpointValue& value) {
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  }
  const T* found = std::get_if<T>(&value);
  STRATA_CHECK(found != nullptr, kInvalidArgument, "[checkpoint] got ", kTypeNames[value.index()],
               "; expected ", name_of<T>());
  return *found;
}
template bool checkpoint_value<bool>(const CheckpointValue&);
template int64_t checkpoint_value<int64_t>(const CheckpointValue&);
template double checkpoint_value<double>(const CheckpointValue&);
template std::string checkpoint_value<std::string>(const CheckpointValue&);

TensorState state_of(const Variable& variable, const std::string& name) {
  TensorState state{.name = name,
                    .dtype = variable.dtype(),
                    .sizes = variable.sizes().vec(),
                    .identity = variable.state().get(),
                    .read = [variable] { return value_for_all(variable); },
                    .write = [variable = Variable(variable)](
                                 const at::Tensor& value) mutable { variable.assign(value); }};
  if (variable.name() != VariableOptions().name) state.label = variable.name();
  state.group = variable.state()->group();
  state.group->refresh();
  state.replicas = variable.state()->group()->num_replicas();
  if (has_local_values(variable)) {
    state.read_replicas = [variable] { return local_values(variable); };
    state.write_replicas = [variable](const std::vector<at::Tensor>& values) {
      write_replicas(variable, values);
    };
  }
  return state;
}

namespace {

class TrackedTensors final : public Trackable {
 public:
  explicit TrackedTensors(std::vector<std::pair<std::string, Variable>> variables)
      : variables_(std::move(variables)) {}
  ObjectState state() override {
    ObjectState state;
    for (const auto& [name, variable] : variables_)
      state.tensors.push_back(state_of(variable, name));
    return state;
  }

 private:
  std::vector<std::pair<std::string, Variable>> variables_;
};

std::shared_ptr<Trackable> by_index(const std::vector<Variable>& variables) {
  std::vector<std::pair<std::string, Variable>> named;
  for (size_t i = 0; i < variables.size(); ++i) {
    named.emplace_back(std::to_string(i), variables[i]);
  }
  return std::make_shared<TrackedTensors>(std::move(named));
}

class TrackedOptimizer final : public Trackable {
 public:
  explicit TrackedOptimizer(optimizers::Optimizer& optimizer) : optimizer_(optimizer) {}
  ObjectState state() override {
    ObjectState state;
    state.continues_run = true;
    state.values.push_back({.name = "iterations",
                            .read = [this] { return optimizer_.iterations(); },
                            .write =
                                [this](const CheckpointValue& value) {
                                  optimizer_.set_iterations(checkpoint_value<int64_t>(value));
                                }});
    if (!optimizer_.follows_schedule()) {
      state.values.push_back({.name = "learning_rate",
                              .read = [this] { return optimizer_.learning_rate(); },
                              .write =
                                  [this](const CheckpointValue& value) {
                                    optimizer_.set_learning_rate(checkpoint_value<double>(value));
                                  }});
    }
    for (const auto& [name, slot] : optimizer_.slots()) {
      const size_t index = state.tensors.size();
      state.tensors.push_back(
          {.name = name,
           .dtype = slot.scalar_type(),
           .sizes = slot.sizes().vec(),
           .read = [slot = slot] { return slot; },
           .write = [this, index](const at::Tensor& value) { optimizer_.set_slot(index, value); }});
    }
    return state;
  }

 private:
  optimizers::Optimizer& optimizer_;
};

template <typename T, typename Stored>
class TrackedValue final : public Trackable {
 public:
  explicit TrackedValue(T& value) : value_(value) {}
  ObjectState state() override {
    return {.values = {{.name = "",
                        .read = [this]() -> CheckpointValue { return static_cast<Stored>(value_); },
                        .write =
                            [this](const CheckpointValue& value) {
                              const auto stored = checkpoint_value<Stored>(value);
                              if constexpr (std::is_same_v<T, int>) {
                                STRATA_CHECK(stored >= std::numeric_limits<int>::min() &&
                                                 stored <= std::numeric_limits<int>::max(),
                                             kInvalidArgument, "[checkpoint] got ", stored,
                                             "; expected what an int can hold");
                              }
                              value_ = static_cast<T>(stored);
                            }}}};
  }

 private:
  T& value_;
};

class TrackedPlainTensor final : public Trackable {
 public:
  explicit TrackedPlainTensor(at::Tensor& tensor) : tensor_(tensor) {}
  ObjectState state() override {
    const at::Tensor present = tensor_.defined() ? tensor_ : at::Tensor();
    TensorState state{.any_size = true,
                      .read = [present] { return present.defined() ? present.detach() : present; },
                      .write = [this](const at::Tensor& value) { replace(value); }};
    if (present.defined()) {
      state.dtype = present.scalar_type();
      state.sizes = present.sizes().vec();
    } else {
      state.dtype = at::ScalarType::Undefined;
    }
    return {.tensors = {std::move(state)}};
  }

 private:
  void replace(const at::Tensor& value) {
    const at::NoGradGuard no_grad;
    if (tensor_.defined() && tensor_.sizes() == value.sizes()) {
      tensor_.detach().copy_(value);
    } else {
      tensor_ = tensor_.defined() ? value.to(tensor_.device(), false, true) : value.clone();
    }
  }

  at::Tensor& tensor_;
};

class TrackedHistory final : public Trackable {
 public:
  explicit TrackedHistory(std::vector<double>& values) : values_(values) {}
  ObjectState state() override {
    TensorState state{.dtype = at::kDouble,
                      .sizes = {static_cast<int64_t>(values_.size())},
                      .any_size = true,
                      .read = [this] { return view().clone(); },
                      .write =
                          [this](const at::Tensor& value) {
                            STRATA_CHECK(value.dim() == 1, kInvalidArgument,
                                         "[checkpoint] got shape ", value.sizes(),
                                         "; expected one dimension");
                            const auto* data = value.const_data_ptr<double>();
                            values_.assign(data, data + value.numel());
                          }};
    return {.tensors = {std::move(state)}};
  }

 private:
  at::Tensor view() {
    return at::from_blob(values_.data(), {static_cast<int64_t>(values_.size())},
                         at::TensorOptions(at::kDouble));
  }

  std::vector<double>& values_;
};

class TrackedGroup final : public Trackable {
 public:
  explicit TrackedGroup(std::vector<std::pair<std::string, Tracked>> group)
      : group_(std::move(group)) {}
  ObjectState state() override {
    ObjectState state;
    for (const auto& [name, object] : group_) state.children.emplace_back(name, object.object());
    return state;
  }

 private:
  std::vector<std::pair<std::string, Tracked>> group_;
};

/// Shares the caller's object, without its lifetime.
std::shared_ptr<Trackable> refer(Trackable& object) { return {std::shared_ptr<void>(), &object}; }

}  // namespace
}  // namespace detail

Trackable::~Trackable() = default;

using Named = std::vector<std::pair<std::string, Variable>>;

Tracked::Tracked(std::shared_ptr<Trackable> object) : object_(std::move(object)) {
  STRATA_CHECK(object_ != nullptr, kInvalidArgument,
               "[checkpoint] got a null pointer for an object to save");
}
Tracked::Tracked(Trackable& object) : object_(detail::refer(object)) {}
Tracked::Tracked(const Variable& variable)
    : object_(std::make_shared<detail::TrackedTensors>(Named{{"", variable}})) {}
Tracked::Tracked(const std::vector<Variable>& variables) : object_(detail::by_index(variables)) {}
Tracked::Tracked(optimizers::Optimizer& optimizer)
    : object_(std::make_shared<detail::TrackedOptimizer>(optimizer)) {}
Tracked::Tracked(const metrics::Mean& mean)
    : object_(std::make_shared<detail::TrackedTensors>(
          Named{{"total", mean.total()}, {"count", mean.count()}})) {}
Tracked::Tracked(const metrics::Sum& sum)
    : object_(std::make_shared<detail::TrackedTensors>(Named{{"total", sum.total()}})) {}
Tracked::Tracked(bool& value)
    : object_(std::make_shared<detail::TrackedValue<bool, bool>>(value)) {}
Tracked::Tracked(int& value)
    : object_(std::make_shared<detail::TrackedValue<int, int64_t>>(value)) {}
Tracked::Tracked(int64_t& value)
    : object_(std::make_shared<detail::TrackedValue<int64_t, int64_t>>(value)) {}
Tracked::Tracked(double& value)
    : object_(std::make_shared<detail::TrackedValue<double, double>>(value)) {}
Tracked::Tracked(std::string& value)
    : object_(std::make_shared<detail::TrackedValue<std::string, std::string>>(value)) {}
Tracked::Tracked(at::Tensor& tensor)
    : object_(std::make_shared<detail::TrackedPlainTensor>(tensor)) {}
Tracked::Tracked(std::vector<double>& values)
    : object_(std::make_shared<detail::TrackedHistory>(values)) {}
Tracked::Tracked(std::vector<std::pair<std::string, Tracked>> group)
    : object_(std::make_shared<detail::TrackedGroup>(std::move(group))) {}

}  // namespace strata
