#include "keras_files/optimizer_layout.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "keras_files/layer_rules.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

/// Kinds of one row stand side by side for each variable; rows stand one behind the other.
struct SlotRow {
  std::string_view kinds;  // divided by commas
  std::string_view when = "";
};

struct OptimizerRow {
  std::string_view class_name;
  std::vector<SlotRow> rows;
  std::string_view scalar = "";  // one more at the end
};

const OptimizerRow* find_optimizer(std::string_view class_name) {
  static const std::vector<OptimizerRow> kRows = {
      {"SGD", {{"momentum", "momentum:0"}}},
      {"Adam", {{"momentum,velocity"}, {"velocity_hat", "amsgrad:0"}}},
      {"AdamW", {{"momentum,velocity"}, {"velocity_hat", "amsgrad:0"}}},
      {"Adafactor", {{"row,column,velocity"}}},
      {"Adamax", {{"momentum,norm"}}},
      {"Nadam", {{"momentum,velocity"}}, "u_product"},
      {"Lamb", {{"momentum,velocity"}}},
      {"Lion", {{"momentum"}}},
      {"Adagrad", {{"accumulator"}}},
      {"Adadelta", {{"accumulated_grad,accumulated_delta_var"}}},
      {"Ftrl", {{"accumulator,linear"}}},
      {"RMSprop", {{"velocity"}, {"momentum", "momentum:0"}, {"average_gradient", "centered:0"}}},
      {"ScheduleFreeAdamW", {{"momentum,velocity"}}},
  };
  const auto row = std::ranges::find(kRows, class_name, &OptimizerRow::class_name);
  return row == kRows.end() ? nullptr : &*row;
}

/// "adam" as Keras takes it for Adam.
std::string optimizer_class_of(const Json& optimizer) {
  if (optimizer.is_string()) {
    std::string lower = optimizer.as_string();
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char* name : {"SGD", "Adam", "AdamW", "Adamax", "Nadam", "Lamb", "Lion", "Adagrad",
                             "Adadelta", "Adafactor", "Ftrl", "RMSprop"}) {
      std::string known = name;
      std::ranges::transform(known, known.begin(), [](unsigned char c) { return std::tolower(c); });
      if (known == lower) return name;
    }
    return optimizer.as_string();
  }
  const Json* name = find_value(optimizer, "class_name");
  STRATA_CHECK(name != nullptr && name->is_string(), kDataLoss,
               "[keras_files] optimizer config: got no 'class_name'; expected a name such as "
               "\"adam\", or an object");
  return name->as_string();
}

/// Adafactor keeps means of a matrix's rows and columns; of a vector one number that it never uses.
std::vector<int64_t> shape_of(std::string_view kind, std::vector<int64_t> shape) {
  if (kind != "row" && kind != "column") return shape;
  if (shape.size() < 2) return {};
  shape.erase(shape.end() - (kind == "row" ? 1 : 2));
  return shape;
}

void add_kinds(std::string_view kinds, std::span<const std::vector<int64_t>> shapes,
               std::vector<OptimizerSlot>& slots) {
  for (size_t variable = 0; variable < shapes.size(); ++variable) {
    for (std::string_view left = kinds; !left.empty();) {
      const size_t end = std::min(left.find(','), left.size());
      const std::string_view kind = left.substr(0, end);
      slots.push_back({.kind = std::string(kind),
                       .variable = static_cast<int64_t>(variable),
                       .shape = shape_of(kind, shapes[variable])});
      left.remove_prefix(std::min(end + 1, left.size()));
    }
  }
}

}  // namespace

namespace {

/// @param nested  Inside a LossScaleOptimizer, where Keras does not track what an optimizer keeps
///                without naming it.
std::vector<OptimizerSlot> slots_of(const Json& optimizer,
                                    std::span<const std::vector<int64_t>> shapes, bool nested) {
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
    for (OptimizerSlot& slot : slots_of(*inner, shapes, true)) {
      if (slot.variable < 0) slot.kind = "inner_" + slot.kind;
      slots.push_back(std::move(slot));
    }
    return slots;
  }
  const OptimizerRow* row = find_optimizer(class_name);
  STRATA_CHECK(row != nullptr, kUnimplemented, "[keras_files] optimizer_slots: got optimizer ",
               class_name,
               "; expected SGD, Adam, AdamW, Adamax, Nadam, Lamb, Lion, Adagrad, Adadelta, "
               "Adafactor, Ftrl, RMSprop, ScheduleFreeAdamW or LossScaleOptimizer");
  slots.push_back({.kind = "iteration"});
  const Json* rate = find_value(config, "learning_rate");
  if (rate == nullptr || rate->is_number()) slots.push_back({.kind = "learning_rate"});
  if (holds("use_ema:0", config)) add_kinds("average", shapes, slots);
  if (holds("gradient_accumulation_steps:0", config)) {
    add_kinds("gradient_accumulator", shapes, slots);
  }
  for (const SlotRow& kinds : row->rows) {
    if (holds(kinds.when, config)) add_kinds(kinds.kinds, shapes, slots);
  }
  if (nested) {
    std::erase_if(slots, [](const OptimizerSlot& slot) {
      return slot.shape.empty() && (slot.kind == "row" || slot.kind == "column");
    });
  } else if (!row->scalar.empty()) {
    slots.push_back({.kind = std::string(row->scalar)});
  }
  return slots;
}

}  // namespace

std::vector<OptimizerSlot> optimizer_slots(const Json& optimizer,
                                           std::span<const std::vector<int64_t>> shapes) {
  return slots_of(optimizer, shapes, false);
}

int64_t find_slot(std::span<const OptimizerSlot> slots, const std::string& kind, int64_t variable) {
  const auto found = std::ranges::find_if(slots, [&](const OptimizerSlot& slot) {
    return slot.kind == kind && slot.variable == variable;
  });
  return found == slots.end() ? -1 : found - slots.begin();
}

}  // namespace strata::keras_files
