#include "tensor/rule_json.h"

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "strata/core/error.h"

namespace strata::tensor {
namespace {

template <typename Rule, typename Wanted>
concept Is = std::same_as<std::remove_const_t<Rule>, Wanted>;

// One overload a rule: calls `visit(name, member)` for each of its options, in order.

template <typename Visit>
void visit_options(Is<SGDRule> auto& rule, Visit visit) {
  visit("momentum", rule.momentum);
  visit("nesterov", rule.nesterov);
}

template <typename Rule>
concept HasBetas = requires(Rule rule) {
  rule.beta_1;
  rule.beta_2;
};

template <typename Visit>
void visit_options(HasBetas auto& rule, Visit visit) {  // Adam and its relatives
  visit("beta_1", rule.beta_1);
  visit("beta_2", rule.beta_2);
  if constexpr (requires { rule.epsilon; }) visit("epsilon", rule.epsilon);
  if constexpr (requires { rule.amsgrad; }) visit("amsgrad", rule.amsgrad);
}

template <typename Visit>
void visit_options(Is<AdagradRule> auto& rule, Visit visit) {
  visit("initial_accumulator_value", rule.initial_accumulator_value);
  visit("epsilon", rule.epsilon);
}

template <typename Visit>
void visit_options(Is<RMSpropRule> auto& rule, Visit visit) {
  visit("rho", rule.rho);
  visit("momentum", rule.momentum);
  visit("epsilon", rule.epsilon);
  visit("centered", rule.centered);
}

template <typename Visit>
void visit_options(Is<AdadeltaRule> auto& rule, Visit visit) {
  visit("rho", rule.rho);
  visit("epsilon", rule.epsilon);
}

template <typename Visit>
void visit_options(Is<FtrlRule> auto& rule, Visit visit) {
  visit("learning_rate_power", rule.learning_rate_power);
  visit("initial_accumulator_value", rule.initial_accumulator_value);
  visit("l1_regularization_strength", rule.l1_regularization_strength);
  visit("l2_regularization_strength", rule.l2_regularization_strength);
  visit("l2_shrinkage_regularization_strength", rule.l2_shrinkage_regularization_strength);
  visit("beta", rule.beta);
}

template <typename Visit>
void visit_options(Is<AdafactorRule> auto& rule, Visit visit) {
  visit("beta_2_decay", rule.beta_2_decay);
  visit("epsilon_1", rule.epsilon_1);
  visit("epsilon_2", rule.epsilon_2);
  visit("clip_threshold", rule.clip_threshold);
}

template <typename Visit>
void visit_options(Is<MovingAverageRule> auto&, Visit) {}

void read(const Json& json, double& value) { value = json.as_double(); }
void read(const Json& json, bool& value) { value = json.as_bool(); }

template <typename Rule>
void read_options(const Json& json, Rule& rule) {
  for (const auto& [name, value] : json.as_object()) {
    if (name == "rule") continue;
    bool known = false;
    std::string names;
    visit_options(rule, [&, &name = name, &value = value](std::string_view option, auto& member) {
      names += str_cat(names.empty() ? "" : ", ", option);
      if (option != name) return;
      read(value, member);
      known = true;
    });
    STRATA_CHECK(known, kInvalidArgument, "[update_rule] rule_from_json: got the option \"", name,
                 "\" for ", json.at("rule").as_string(), "; it has: ", names);
  }
}

/// Calls `visit` with a RuleOptions of each kind.
template <size_t kIndex = 0, typename Visit>
void for_each_kind(Visit visit) {
  visit(RuleOptions(std::in_place_index<kIndex>));
  if constexpr (kIndex + 1 < std::variant_size_v<RuleOptions>) for_each_kind<kIndex + 1>(visit);
}

std::string name_of(const RuleOptions& options) { return std::string(make_rule(options)->name()); }

}  // namespace

Json rule_to_json(const RuleOptions& options) {
  Json json = Json::object();
  json.set("rule", name_of(options));
  std::visit(
      [&](const auto& rule) {
        visit_options(rule, [&](std::string_view name, const auto& value) {
          json.set(std::string(name), value);
        });
      },
      options);
  return json;
}

RuleOptions rule_from_json(const Json& json) {
  const std::string& name = json.at("rule").as_string();
  std::optional<RuleOptions> found;
  std::string names;
  for_each_kind([&](RuleOptions options) {
    names += str_cat(names.empty() ? "" : ", ", name_of(options));
    if (name_of(options) == name) found = options;
  });
  STRATA_CHECK(found.has_value(), kInvalidArgument, "[update_rule] rule_from_json: got the rule \"",
               name, "\"; there are: ", names);
  std::visit([&](auto& rule) { read_options(json, rule); }, *found);
  return *found;
}

}  // namespace strata::tensor
