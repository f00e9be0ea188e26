#include "optim/step/shipped_update.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "optim/optimizer_impl.h"
#include "strata/core/error.h"
#include "tensor/rule_json.h"
#include "tensor/update_rule.h"

namespace strata::optimizers {
namespace {

constexpr size_t kMostExclusions = 1000;

class ShippedOptimizer final : public Optimizer {
 public:
  ShippedOptimizer(const tensor::RuleOptions& rule, OptimizerOptions options)
      : Optimizer(rule, std::move(options)) {}
};

double finite_number(const Json& json, const char* name) {
  const double value = json.at(name).as_double();
  STRATA_CHECK(std::isfinite(value), kInvalidArgument, "[optimizer] got ", name, " ", value,
               "; expected a finite number");
  return value;
}

void read_option(const Json& json, const char* name, double& to) { to = finite_number(json, name); }
void read_option(const Json& json, const char* name, bool& to) { to = json.at(name).as_bool(); }
void read_option(const Json& json, const char* name, int64_t& to) { to = json.at(name).as_int(); }

}  // namespace

Json Optimizer::Impl::shipped_options() const {
  Json common = Json::object();
#define STRATA_SHIP_OPTION(type, name, value) common.set(#name, options_.name);
  STRATA_OPTIMIZER_OPTIONS(STRATA_SHIP_OPTION)
#undef STRATA_SHIP_OPTION
  common.set("weight_decay", options_.weight_decay);
  common.set("left_out_weight_decay", options_.left_out_weight_decay);
  Json undecayed = Json::array();
  for (const std::string& part : undecayed_) undecayed.push_back(part);
  Json left_out = Json::array();
  for (const Variable& variable : variables_) {
    if (is_left_out(variable)) left_out.push_back(variable.name());
  }
  return Json::object()
      .set("rule", tensor::rule_to_json(rule_->options()))
      .set("common", std::move(common))
      .set("undecayed", std::move(undecayed))
      .set("left_out", std::move(left_out));
}

std::string Optimizer::Impl::why_not_shipped() const {
  if (variables_.empty()) return "it has no variables";
  if (dynamic_scale_ || options_.loss_scale_factor > 0) return "it scales the loss";
  return "";
}

std::vector<StepNumbers> Optimizer::Impl::next_numbers(int64_t steps) const {
  const int64_t frequency = options_.ema_overwrite_frequency;
  std::vector<StepNumbers> rows;
  double carried = carried_.defined() ? carried_.item<double>() : 0;
  for (int64_t step = iterations_; step < iterations_ + steps; ++step) {
    const int64_t updates = updates_before(step);
    const double next = carried_.defined() ? rule_->next_scalar_state(carried, updates) : carried;
    const tensor::PreparedStep prepared =
        rule_->prepare({.learning_rate = options_.learning_rate(step),
                        .iteration = updates,
                        .scalar_state = next});
    if (updates_at(step)) carried = next;
    StepNumbers& row = rows.emplace_back();
    row[0] = prepared.learning_rate;
    std::ranges::copy(prepared.constants, row.begin() + 1);
    row[7] = updates_at(step) ? 1 : 0;
    row[8] = updates == 0 ? 1 : 1 - options_.ema_momentum;
    row[9] = frequency > 0 && (updates + 1) % frequency == 0 ? 1 : 0;
  }
  return rows;
}

void Optimizer::Impl::advance(int64_t steps) {
  for (int64_t step = iterations_; carried_.defined() && step < iterations_ + steps; ++step) {
    if (!updates_at(step)) continue;
    carried_.fill_(rule_->next_scalar_state(carried_.item<double>(), updates_before(step)));
  }
  iterations_ += steps;
}

ShippedUpdate& shipped_update_of(const Optimizer& optimizer) { return *optimizer.impl_; }

std::unique_ptr<Optimizer> make_shipped(const Json& json, double learning_rate) {
  OptimizerOptions options;
  options.learning_rate = learning_rate;
  const Json& common = json.at("common");
#define STRATA_TAKE_OPTION(type, name, value) read_option(common, #name, options.name);
  STRATA_OPTIMIZER_OPTIONS(STRATA_TAKE_OPTION)
#undef STRATA_TAKE_OPTION
  options.weight_decay = finite_number(common, "weight_decay");
  options.left_out_weight_decay = finite_number(common, "left_out_weight_decay");
  std::set<std::string> left_out;
  for (const Json& name : json.at("left_out").as_array()) left_out.insert(name.as_string());
  if (!left_out.empty()) {
    options.leaves_out = [left_out = std::move(left_out)](const Variable& variable) {
      return left_out.contains(variable.name());
    };
  }
  STRATA_CHECK(options.loss_scale_factor == 0, kUnimplemented,
               "[optimizer] got a loss scale; expected none where a server updates");
  auto optimizer = std::make_unique<ShippedOptimizer>(tensor::rule_from_json(json.at("rule")),
                                                      std::move(options));
  const auto& undecayed = json.at("undecayed").as_array();
  STRATA_CHECK(undecayed.size() <= kMostExclusions, kInvalidArgument, "[optimizer] got ",
               undecayed.size(), " names without weight decay; expected ", kMostExclusions,
               " at most");
  std::vector<std::string> parts;
  for (const Json& part : undecayed) parts.push_back(part.as_string());
  if (!parts.empty()) optimizer->exclude_from_weight_decay(parts);
  return optimizer;
}

}  // namespace strata::optimizers
