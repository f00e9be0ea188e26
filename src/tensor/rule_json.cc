#include "tensor/rule_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>

#include "core/join.h"
#include "strata/core/error.h"

namespace strata::tensor {
namespace {

void read(const Json& json, double& value) { value = json.as_double(); }
void read(const Json& json, int64_t& value) { value = json.as_int(); }
void read(const Json& json, bool& value) { value = json.as_bool(); }

template <typename Rule>
void read_options(const Json& json, Rule& rule) {
  for (const auto& [name, value] : json.as_object()) {
    if (name == "rule") continue;
    bool known = false;
    std::string names;
    Rule::visit_options(
        [&, &name = name, &value = value](std::string_view option, auto& member) {
          names += str_cat(names.empty() ? "" : ", ", option);
          if (option != name) return;
          read(value, member);
          known = true;
        },
        rule);
    STRATA_CHECK(known, kInvalidArgument, "[update_rule] rule_from_json: got the option \"", name,
                 "\" for ", json.at("rule").as_string(), "; it has: ", names);
  }
}

}  // namespace

Json rule_to_json(const RuleOptions& options) {
  Json json = Json::object();
  json.set("rule", std::string(row_of(options).name));
  std::visit(
      [&](const auto& rule) {
        rule.visit_options(
            [&](const char* name, const auto& value) { json.set(std::string(name), value); }, rule);
      },
      options);
  return json;
}

RuleOptions rule_from_json(const Json& json) {
  const std::string& name = json.at("rule").as_string();
  const auto row = std::ranges::find(rule_rows(), name, &RuleRow::name);
  STRATA_CHECK(row != rule_rows().end(), kInvalidArgument,
               "[update_rule] rule_from_json: got the rule \"", name,
               "\"; there are: ", join(rule_rows(), &RuleRow::name));
  RuleOptions options = row->defaults;
  std::visit([&](auto& rule) { read_options(json, rule); }, options);
  return options;
}

}  // namespace strata::tensor
