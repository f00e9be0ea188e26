#include "keras_files/optimizer_layout.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/join.h"
#include "core/letter_case.h"
#include "keras_files/layer_rules.h"
#include "strata/core/error.h"
#include "strata/tensor/rule_options.h"
#include "tensor/muon_variables.h"

namespace strata::keras_files {
namespace {

struct OptimizerClass {
  std::string_view name;
  std::span<const tensor::RuleSlot> slots;
  std::string_view scalar = {};  // one more at the end
};

const std::vector<OptimizerClass>& all_classes() {
  static const std::vector<OptimizerClass> kClasses = [] {
    std::vector<OptimizerClass> classes;
    for (const tensor::RuleRow& row : tensor::rule_rows()) {
      for (const std::string_view name : row.class_names) {
        classes.push_back({name, row.slots, row.scalar_state});
      }
    }
    return classes;
  }();
  return kClasses;
}

/// "adam" as Keras takes it for Adam.
std::string optimizer_class_of(const Json& optimizer) {
  if (optimizer.is_string()) {
    const std::string& name = optimizer.as_string();
    for (const OptimizerClass& each : all_classes()) {
      if (strata::detail::lower_case(each.name) == strata::detail::lower_case(name))
        return std::string(each.name);
    }
    return name;
  }
  const Json* name = find_value(optimizer, "class_name");
  STRATA_CHECK(name != nullptr && name->is_string(), kDataLoss,
               "[keras_files] optimizer config: got no 'class_name'; expected a name such as "
               "\"adam\", or an object");
  return name->as_string();
}

/// The slots of one variable are side by side.
void add_slots(std::span<const tensor::RuleSlot> kinds,
               std::span<const std::vector<int64_t>> shapes, std::vector<OptimizerSlot>& slots) {
  for (size_t variable = 0; variable < shapes.size(); ++variable) {
    for (const tensor::RuleSlot& kind : kinds) {
      slots.push_back({.kind = std::string(kind.name),
                       .variable = static_cast<int64_t>(variable),
                       .shape = kind.shape_of(shapes[variable])});
    }
  }
}

/// Those of Muon, or of Adam, which updates what is no matrix or excluded.
void add_muon_slots(const Json& config, std::span<const std::vector<int64_t>> shapes,
                    std::span<const std::string> names, std::vector<OptimizerSlot>& slots) {
  std::vector<std::string> excluded;
  if (const Json* given = find_value(config, "exclude_layers")) {
    for (const Json& each : given->as_array()) excluded.push_back(each.as_string());
  }
  const Json* embeddings = find_value(config, "exclude_embeddings");
  const tensor::MuonVariables matrices(excluded, embeddings == nullptr || embeddings->as_bool());
  for (size_t variable = 0; variable < shapes.size(); ++variable) {
    const bool is_matrix =
        matrices.contains(names.empty() ? "" : names[variable], shapes[variable]);
    for (const char* kind : {"momentum", "velocity"}) {
      slots.push_back(
          {.kind = kind, .variable = static_cast<int64_t>(variable), .shape = shapes[variable]});
      if (is_matrix) break;
    }
  }
}

/// @param nested  Inside a LossScaleOptimizer, where Keras does not track what an optimizer keeps
///                without naming it.
std::vector<OptimizerSlot> slots_of(const Json& optimizer,
                                    std::span<const std::vector<int64_t>> shapes,
                                    std::span<const std::string> names, bool nested) {
  const std::string class_name = optimizer_class_of(optimizer);
  const Json* given = optimizer.is_string() ? nullptr : find_value(optimizer, "config");
  const Json config = given == nullptr ? Json::object() : *given;
  std::vector<OptimizerSlot> slots;
  if (class_name == "LossScaleOptimizer") {
    // Its own, of which the learning rate is not used; then the inner one's.
    const Json* inner = find_value(config, "inner_optimizer");
    STRATA_CHECK(inner != nullptr, kDataLoss,
                 "[keras_files] optimizer config: LossScaleOptimizer has no 'inner_optimizer'");
    slots = {{.kind = "iteration"},
             {.kind = "learning_rate"},
             {.kind = "step_counter"},
             {.kind = "dynamic_scale"}};
    for (OptimizerSlot& slot : slots_of(*inner, shapes, names, true)) {
      if (slot.variable < 0) slot.kind = "inner_" + slot.kind;
      slots.push_back(std::move(slot));
    }
    return slots;
  }
  const auto& classes = all_classes();
  const auto found = std::ranges::find(classes, class_name, &OptimizerClass::name);
  STRATA_CHECK(found != classes.end(), kUnimplemented,
               "[keras_files] optimizer_slots: got optimizer ", class_name, "; expected ",
               join(classes, &OptimizerClass::name), " or LossScaleOptimizer");
  slots.push_back({.kind = "iteration"});
  const Json* rate = find_value(config, "learning_rate");
  if (rate == nullptr || rate->is_number()) slots.push_back({.kind = "learning_rate"});
  std::vector<tensor::RuleSlot> always;
  std::ranges::copy_if(found->slots, std::back_inserter(always),
                       [](const tensor::RuleSlot& slot) { return slot.when.empty(); });
  static const tensor::RuleSlot kAverage = {"average"}, kAccumulator = {"gradient_accumulator"};
  const auto wants = [&](std::string_view option) { return holds(str_cat(option, ":0"), config); };
  if (wants("use_ema")) add_slots({&kAverage, 1}, shapes, slots);
  if (wants("gradient_accumulation_steps")) add_slots({&kAccumulator, 1}, shapes, slots);
  if (class_name == "Muon") {
    add_muon_slots(config, shapes, names, slots);
  } else {
    add_slots(always, shapes, slots);
  }
  for (const tensor::RuleSlot& slot : found->slots) {
    if (!slot.when.empty() && wants(slot.when)) add_slots({&slot, 1}, shapes, slots);
  }
  if (nested) {
    std::erase_if(slots, [](const OptimizerSlot& slot) {
      return slot.shape.empty() && (slot.kind == "row" || slot.kind == "column");
    });
  } else if (!found->scalar.empty()) {
    slots.push_back({.kind = std::string(found->scalar)});
  }
  return slots;
}

}  // namespace

std::vector<OptimizerSlot> optimizer_slots(const Json& optimizer,
                                           std::span<const std::vector<int64_t>> shapes,
                                           std::span<const std::string> names) {
  return slots_of(optimizer, shapes, names, false);
}

int64_t find_slot(std::span<const OptimizerSlot> slots, const std::string& kind, int64_t variable) {
  const auto found = std::ranges::find_if(slots, [&](const OptimizerSlot& slot) {
    return slot.kind == kind && slot.variable == variable;
  });
  return found == slots.end() ? -1 : found - slots.begin();
}

}  // namespace strata::keras_files
