#include "strata/tensor/rule_options.h"

#include <algorithm>

#include "tensor/update_rule.h"

namespace strata::tensor {

std::vector<int64_t> RuleSlot::shape_of(std::span<const int64_t> variable) const {
  std::vector<int64_t> sizes(variable.begin(), variable.end());
  if (shape == SlotShape::kOfVariable) return sizes;
  if (sizes.size() < 2) return {};  // not used; Keras has it, too
  sizes.erase(sizes.end() - (shape == SlotShape::kOfRows ? 1 : 2));
  return sizes;
}

std::span<const RuleRow> rule_rows() {
  static const std::vector<RuleRow> kRows = {
      {SGDRule(), {"SGD"}, "sgd", {{"momentum", "momentum"}}},
      {AdamRule(),
       {"Adam", "AdamW"},
       "adam",
       {{"momentum"}, {"velocity"}, {"velocity_hat", "amsgrad"}}},
      {AdamaxRule(), {"Adamax"}, "adamax", {{"momentum"}, {"norm"}}},
      {NadamRule(), {"Nadam"}, "nadam", {{"momentum"}, {"velocity"}}, "u_product"},
      {LambRule(), {"Lamb"}, "lamb", {{"momentum"}, {"velocity"}}},
      {LARSRule(), {"LARS"}, "lars", {{"momentum"}}},
      {LionRule(), {"Lion"}, "lion", {{"momentum"}}},
      {MuonRule(), {"Muon"}, "muon", {{"momentum"}}},
      {ScheduleFreeAdamWRule(),
       {"ScheduleFreeAdamW"},
       "schedule_free_adamw",
       {{.name = "momentum", .starts_as_variable = true}, {"velocity"}}},
      {AdagradRule(), {"Adagrad"}, "adagrad", {{"accumulator"}}},
      {LegacyAdagradRule(), {}, "legacy_adagrad", {{"accumulator"}}},
      {AdadeltaRule(), {"Adadelta"}, "adadelta", {{"accumulated_grad"}, {"accumulated_delta_var"}}},
      {AdafactorRule(),
       {"Adafactor"},
       "adafactor",
       {{"row", "", SlotShape::kOfRows}, {"column", "", SlotShape::kOfColumns}, {"velocity"}}},
      {FtrlRule(), {"Ftrl"}, "ftrl", {{"accumulator"}, {"linear"}}},
      {RMSpropRule(),
       {"RMSprop"},
       "rmsprop",
       {{"velocity"}, {"momentum", "momentum"}, {"average_gradient", "centered"}}},
      {LegacyRMSpropRule(),
       {},
       "legacy_rmsprop",
       {{"velocity"}, {"momentum", "momentum"}, {"average_gradient", "centered"}}},
      {MovingAverageRule(), {}, "moving_average"},
  };
  return kRows;
}

const RuleRow& row_of(const RuleOptions& options) {
  const std::span<const RuleRow> rows = rule_rows();
  return *std::ranges::find_if(
      rows, [&](const RuleRow& row) { return row.defaults.index() == options.index(); });
}

RuleOptions rule_of_left_out(const RuleOptions& options) {
  if (const auto* lars = std::get_if<LARSRule>(&options)) {
    return SGDRule{.momentum = lars->momentum, .nesterov = lars->nesterov};
  }
  if (const auto* muon = std::get_if<MuonRule>(&options)) {
    return AdamRule{
        .beta_1 = muon->adam_beta_1, .beta_2 = muon->adam_beta_2, .epsilon = muon->epsilon};
  }
  return options;
}

std::unique_ptr<UpdateRule> make_rule(const RuleOptions& options) {
  return std::visit([](const auto& rule) { return rule.make(); }, options);
}

}  // namespace strata::tensor
