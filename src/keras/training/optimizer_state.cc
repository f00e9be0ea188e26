#include "strata/keras/optimizer_state.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "keras_files/optimizer_layout.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/keras/saving.h"
#include "tensor/update_rule.h"

namespace strata::keras {
namespace {

using keras_files::OptimizerSlot;

/// Keras's slots, and where the optimizer has each.
class Layout {
 public:
  Layout(const optimizers::Optimizer& optimizer, std::span<const Variable> trainable) {
    const std::vector<Variable>& variables = optimizer.variables();
    STRATA_CHECK(variables.empty() || variables.size() == trainable.size(), kInvalidArgument,
                 "[keras] state of ", optimizer.name(), ": got ", trainable.size(),
                 " trainable variables; expected the optimizer's ", variables.size());
    std::vector<std::vector<int64_t>> shapes;
    std::vector<std::string> names;
    for (size_t i = 0; i < variables.size(); ++i) {
      first_slots_.push_back(num_slots_);
      names_.push_back(optimizer.slot_names(i));
      num_slots_ += names_.back().size();
      const auto found = std::ranges::find_if(
          variables, [&](const Variable& each) { return each.is_same(trainable[i]); });
      STRATA_CHECK(found != variables.end(), kInvalidArgument, "[keras] state of ",
                   optimizer.name(), ": got '", trainable[i].name(),
                   "', which the optimizer does not train");
      places_.push_back(static_cast<size_t>(found - variables.begin()));
      shapes.push_back(trainable[i].sizes().vec());
      names.push_back(trainable[i].name());
    }
    slots_ = keras_files::optimizer_slots(to_config(optimizer), shapes, names);
    std::ranges::copy_if(slots_, std::back_inserter(untrained_), counts);
    if (variables.empty()) slots_ = untrained_;
    // A loss scale's own two stand before the numbers that count.
    nested_ =
        std::ranges::any_of(slots_, [](const auto& s) { return s.kind.starts_with("inner_"); });
  }

  const std::vector<OptimizerSlot>& slots() const { return slots_; }

  /// What a model has that was compiled and not trained.
  const std::vector<OptimizerSlot>& untrained() const { return untrained_; }

  /// "iterations" or "learning_rate" if the slot is that, "unused" if it is not read, else "".
  std::string number(const OptimizerSlot& slot) const {
    if (slot.variable >= 0) return "";
    const std::string prefix = nested_ ? "inner_" : "";
    if (slot.kind == prefix + "iteration") return "iterations";
    if (slot.kind == prefix + "learning_rate") return "learning_rate";
    return counts(slot) ? "unused" : "";
  }

  /// Index into the optimizer's `slots()`.
  size_t index(const OptimizerSlot& slot,
               const std::vector<std::pair<std::string, at::Tensor>>& all) const {
    if (slot.variable >= 0) {
      const size_t place = places_[static_cast<size_t>(slot.variable)];
      const auto name = std::ranges::find(names_[place], slot.kind);
      STRATA_CHECK(name != names_[place].end(), kInternal, "[keras] no slot ", slot.kind);
      return first_slots_[place] + static_cast<size_t>(name - names_[place].begin());
    }
    const std::string kind = slot.kind.starts_with("inner_") ? slot.kind.substr(6) : slot.kind;
    const auto found = std::find_if(all.begin() + static_cast<long>(num_slots_), all.end(),
                                    [&](const auto& each) { return each.first == kind; });
    STRATA_CHECK(found != all.end(), kInternal, "[keras] no number ", kind);
    return static_cast<size_t>(found - all.begin());
  }

 private:
  static bool counts(const OptimizerSlot& slot) {
    return slot.variable < 0 &&
           (slot.kind.ends_with("iteration") || slot.kind.ends_with("learning_rate"));
  }

  // By the optimizer's variable: the names of its slots, and how many are before them.
  std::vector<std::vector<std::string>> names_;
  std::vector<size_t> first_slots_;
  size_t num_slots_ = 0;
  std::vector<size_t> places_;  // by trainable variable
  std::vector<OptimizerSlot> slots_, untrained_;
  bool nested_ = false;
};

/// Keras forgets Nadam's product inside a loss scale, and then continues from 1; it follows from
/// the number of updates.
void restore_product(optimizers::Optimizer& optimizer, const std::vector<OptimizerSlot>& slots) {
  const auto all = optimizer.slots();
  if (all.empty() || std::ranges::count(slots, "u_product", &OptimizerSlot::kind) > 0) return;
  const auto product =
      std::ranges::find(all, "u_product", [](const auto& each) { return each.first; });
  if (product == all.end()) return;
  const Json config = to_config(optimizer).at("config").at("inner_optimizer").at("config");
  const Json& calls = config.at("gradient_accumulation_steps");
  const int64_t updates = optimizer.iterations() / (calls.is_null() ? 1 : calls.as_int());
  const auto rule = tensor::NadamRule{.beta_1 = config.at("beta_1").as_double()}.make();
  double value = 1;
  for (int64_t i = 0; i < updates && value > 0; ++i) value = rule->next_scalar_state(value, i);
  optimizer.set_slot(static_cast<size_t>(product - all.begin()),
                     at::full({}, value, product->second.options()));
}

at::Tensor number(double value, at::ScalarType dtype) {
  return at::full({}, value, at::TensorOptions().dtype(dtype));
}

}  // namespace

std::vector<at::Tensor> export_state(const optimizers::Optimizer& optimizer,
                                     std::span<const Variable> trainable) {
  const Layout layout(optimizer, trainable);
  const auto all = optimizer.slots();
  std::vector<at::Tensor> state;
  for (const OptimizerSlot& slot : layout.slots()) {
    const std::string kind = layout.number(slot);
    if (kind == "iterations") {
      state.push_back(at::full({}, optimizer.iterations(), at::TensorOptions().dtype(at::kLong)));
    } else if (kind == "learning_rate") {
      state.push_back(number(optimizer.learning_rate(), at::kFloat));
    } else if (kind == "unused") {
      state.push_back(number(0, slot.kind == "iteration" ? at::kLong : at::kFloat));
    } else {
      const at::Tensor& value = all[layout.index(slot, all)].second;
      state.push_back(value.detach().cpu().contiguous().clone());
    }
  }
  return state;
}

bool import_state(optimizers::Optimizer& optimizer, std::span<const Variable> trainable,
                  std::span<const at::Tensor> state) {
  const Layout layout(optimizer, trainable);
  const bool all_there = state.size() == layout.slots().size();
  if (!all_there && state.size() != layout.untrained().size()) {
    STRATA_LOG(kWarning) << "[keras] state of " << optimizer.name() << ": got " << state.size()
                         << " variables; expected " << layout.slots().size()
                         << ". It is another optimizer's: training starts from zero";
    return false;
  }
  const std::vector<OptimizerSlot>& slots = all_there ? layout.slots() : layout.untrained();
  for (size_t i = 0; i < state.size(); ++i) {
    const OptimizerSlot& slot = slots[i];
    STRATA_CHECK(state[i].defined() && state[i].sizes() == at::IntArrayRef(slot.shape),
                 kInvalidArgument, "[keras] state of ", optimizer.name(), ": variable ", i, " (",
                 slot.kind, ") has shape ",
                 state[i].defined() ? state[i].sizes() : at::IntArrayRef(), "; expected ",
                 at::IntArrayRef(slot.shape));
  }
  const auto all = optimizer.slots();
  for (size_t i = 0; i < state.size(); ++i) {
    const OptimizerSlot& slot = slots[i];
    const std::string kind = layout.number(slot);
    if (kind == "iterations") {
      optimizer.set_iterations(state[i].item<int64_t>());
    } else if (kind == "learning_rate") {
      optimizer.set_learning_rate(state[i].item<double>());
    } else if (kind.empty()) {
      optimizer.set_slot(layout.index(slot, all), state[i]);
    }
  }
  if (all_there) restore_product(optimizer, slots);
  return true;
}

}  // namespace strata::keras
