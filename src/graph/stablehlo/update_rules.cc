// Updates of strata's optimizers: the formulas of tensor/update_rule.h, with a step's numbers as an array, so that
// a schedule changes no program.
#include <array>
#include <map>
#include <variant>
#include <vector>

#include "graph/stablehlo/rules.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "tensor/rule_json.h"
#include "tensor/update_rule.h"

namespace strata::graph::stablehlo {
namespace {

/// One variable in one step; the formula changes `parameter` and `slots`.
struct Update {
  Array parameter;
  Array gradient;
  std::vector<Array> slots;
  Array rate;
  std::array<Array, 6> constants;  // PreparedStep's
  double weight_decay = 0;         // for rules that add it to the gradient
};

Array square(const Array& x) { return x * x; }
/// The moving average that moves by `rate`.
Array towards(const Array& average, const Array& value, const Array& rate) {
  return average + (value - average) * rate;
}
/// In double.
Array norm(const Array& x) {
  return sqrt(sum(square(convert(x, at::kDouble)), all_axes(x.rank())));
}
Array sign(const Array& x) { return unary("stablehlo.sign", x); }

void apply(const tensor::SGDRule& rule, Update& u) {
  if (rule.momentum == 0) {
    u.parameter = u.parameter - u.gradient * u.rate;
    return;
  }
  Array& momentum = u.slots[0];
  momentum = momentum * rule.momentum - u.gradient * u.rate;
  u.parameter =
      u.parameter + (rule.nesterov ? momentum * rule.momentum - u.gradient * u.rate : momentum);
}

void apply(const tensor::AdamRule& rule, Update& u) {
  const auto& [alpha, rate_1, rate_2, epsilon, unused_0, unused_1] = u.constants;
  u.slots[0] = towards(u.slots[0], u.gradient, rate_1);
  u.slots[1] = towards(u.slots[1], square(u.gradient), rate_2);
  if (rule.amsgrad) u.slots[2] = maximum(u.slots[2], u.slots[1]);
  u.parameter = u.parameter - u.slots[0] * alpha / (sqrt(u.slots[rule.amsgrad ? 2 : 1]) + epsilon);
}

void apply(const tensor::AdamaxRule& rule, Update& u) {
  const auto& [correction, rate_1, beta_2, epsilon, unused_0, unused_1] = u.constants;
  u.slots[0] = towards(u.slots[0], u.gradient, rate_1);
  u.slots[1] = maximum(u.slots[1] * rule.beta_2, absolute(u.gradient));
  u.parameter = u.parameter - u.slots[0] * u.rate / ((u.slots[1] + epsilon) * correction);
}

void apply(const tensor::NadamRule&, Update& u) {
  const auto& [of_momentum, of_gradient, rate_1, rate_2, correction, epsilon] = u.constants;
  u.slots[0] = towards(u.slots[0], u.gradient, rate_1);
  u.slots[1] = towards(u.slots[1], square(u.gradient), rate_2);
  const Array direction = u.slots[0] * of_momentum + u.gradient * of_gradient;
  u.parameter = u.parameter - direction * u.rate / (sqrt(u.slots[1] / correction) + epsilon);
}

void apply(const tensor::LambRule&, Update& u) {
  const auto& [rate_1, rate_2, correction_1, correction_2, epsilon, unused] = u.constants;
  u.slots[0] = towards(u.slots[0], u.gradient, rate_1);
  u.slots[1] = towards(u.slots[1], square(u.gradient), rate_2);
  const Array update = u.slots[0] / correction_1 / (sqrt(u.slots[1] / correction_2) + epsilon);
  const Array weights = norm(u.parameter), updates = norm(update);
  const Array none = number_like(weights, 0), one = number_like(weights, 1);
  const Array ratio = select(both(compare("GT", weights, none), compare("GT", updates, none)),
                             weights / updates, one);
  u.parameter = u.parameter - update * convert(ratio, update.dtype) * u.rate;
}

void apply(const tensor::LARSRule& rule, Update& u) {
  const Array weights = norm(u.parameter), gradients = norm(u.gradient);
  const Array none = number_like(weights, 0), one = number_like(weights, 1);
  const Array divisor = gradients + weights * u.weight_decay + rule.epsilon;
  const Array ratio = select(both(compare("GT", weights, none), compare("GT", gradients, none)),
                             weights * rule.eeta / divisor, one);
  const Array step =
      (u.gradient + u.parameter * u.weight_decay) * convert(ratio, u.parameter.dtype) * u.rate;
  Array& momentum = u.slots[0];
  momentum = momentum * rule.momentum - step;
  u.parameter = u.parameter + (rule.nesterov ? momentum * rule.momentum - step : momentum);
}

void apply(const tensor::MuonRule&, Update&) {
  throw Error(ErrorCode::kUnimplemented,
              "[stablehlo] got an update by muon, whose variables have not all the same slots; "
              "take another optimizer");
}

void apply(const tensor::ScheduleFreeAdamWRule& rule, Update& u) {
  const auto& [rate, rate_2, correction, epsilon, weight, beta_1] = u.constants;
  Array& z = u.slots[0];
  const Array x = (u.parameter - z * (1 - rule.beta_1)) / beta_1;
  u.slots[1] = towards(u.slots[1], square(u.gradient), rate_2);
  z = z - u.gradient * rate / (sqrt(u.slots[1] / correction) + epsilon);
  u.parameter = z * (1 - rule.beta_1) + towards(x, z, weight) * rule.beta_1;
}

void apply(const tensor::LionRule&, Update& u) {
  const auto& [beta_1, rate_1, beta_2, rate_2, unused_0, unused_1] = u.constants;
  u.parameter = u.parameter - sign(u.slots[0] * beta_1 + u.gradient * rate_1) * u.rate;
  u.slots[0] = u.slots[0] * beta_2 + u.gradient * rate_2;
}

void apply(const tensor::AdagradRule& rule, Update& u) {
  u.slots[0] = u.slots[0] + square(u.gradient);
  u.parameter = u.parameter - u.gradient * u.rate / sqrt(u.slots[0] + rule.epsilon);
}

void apply(const tensor::LegacyAdagradRule& rule, Update& u) {
  u.slots[0] = u.slots[0] + square(u.gradient);
  u.parameter = u.parameter - u.gradient * u.rate / (sqrt(u.slots[0]) + rule.epsilon);
}

void apply(const tensor::AdadeltaRule& rule, Update& u) {
  u.slots[0] = u.slots[0] * rule.rho + square(u.gradient) * (1 - rule.rho);
  const Array delta =
      sqrt(u.slots[1] + rule.epsilon) * u.gradient / sqrt(u.slots[0] + rule.epsilon);
  u.slots[1] = u.slots[1] * rule.rho + square(delta) * (1 - rule.rho);
  u.parameter = u.parameter - delta * u.rate;
}

/// The mean over an axis counted from the end, which stays.
Array mean_over(const Array& x, int64_t from_end) {
  return mean(x, {x.rank() - from_end}, /*keep=*/true);
}

void apply(const tensor::AdafactorRule& rule, Update& u) {
  // Slots: of rows, of columns, and of the variable (rule_options.cc).
  const auto& [beta_2, rho, unused_0, unused_1, unused_2, unused_3] = u.constants;
  const auto rms = [](const Array& x) {
    const Array wide = convert(x, at::kDouble);
    return convert(sqrt(mean(square(wide), all_axes(x.rank()))), x.dtype);
  };
  const Array squares = square(u.gradient) + rule.epsilon_1;
  Array& row = u.slots[0];
  Array& column = u.slots[1];
  Array& velocity = u.slots[2];
  if (u.parameter.rank() >= 2) {
    const auto moved = [&](const Array& slot, int64_t from_end) {
      const Array now = reshape(mean_over(squares, from_end), slot.sizes);
      return slot * beta_2 + now * (1 - beta_2);
    };
    row = moved(row, 1);
    column = moved(column, 2);
    const auto with_axis = [](const Array& x, int64_t from_end) {
      Sizes sizes = x.sizes;
      sizes.insert(sizes.end() - from_end, 1);
      return reshape(x, sizes);
    };
    velocity = with_axis(row / mean_over(row, 1), 0) * with_axis(column, 1);
  } else {
    velocity = velocity * beta_2 + squares * (1 - beta_2);
  }
  const Array alpha = maximum(rms(u.parameter), rule.epsilon_2) * rho;
  const Array update = u.gradient / sqrt(velocity);
  u.parameter = u.parameter - update / maximum(rms(update) / rule.clip_threshold, 1) * alpha;
}

void apply(const tensor::FtrlRule&, Update& u) {
  const auto& [exponent, l1, two_l2, two_shrinkage, unused_0, unused_1] = u.constants;
  Array& accumulator = u.slots[0];
  Array& linear = u.slots[1];
  const auto raised = [&exponent = exponent](const Array& x) {
    return power(x, broadcast_to(exponent, x.sizes));
  };
  const Array before = raised(accumulator);
  accumulator = accumulator + square(u.gradient);
  const Array after = raised(accumulator);
  linear =
      linear + u.gradient + u.parameter * two_shrinkage - (after - before) / u.rate * u.parameter;
  const Array clipped = minimum(maximum(linear, -l1), l1);
  u.parameter = (clipped - linear) / (after / u.rate + two_l2);
}

template <typename Rule>
void apply_rmsprop(const Rule& rule, bool epsilon_outside, Update& u) {
  Array& velocity = u.slots[0];
  velocity = velocity * rule.rho + square(u.gradient) * (1 - rule.rho);
  Array variance = velocity;
  if (rule.centered) {
    Array& average = u.slots.back();
    average = average * rule.rho + u.gradient * (1 - rule.rho);
    variance = velocity - square(average);
  }
  const Array denominator =
      epsilon_outside ? sqrt(variance) + rule.epsilon : sqrt(variance + rule.epsilon);
  const Array step = u.gradient * u.rate / denominator;
  if (rule.momentum > 0) {
    u.slots[1] = u.slots[1] * rule.momentum + step;
    u.parameter = u.parameter - u.slots[1];
  } else {
    u.parameter = u.parameter - step;
  }
}

void apply(const tensor::RMSpropRule& rule, Update& u) { apply_rmsprop(rule, false, u); }

void apply(const tensor::LegacyRMSpropRule& rule, Update& u) {
  apply_rmsprop(rule, /*epsilon_outside=*/rule.momentum == 0, u);
}

void apply(const tensor::MovingAverageRule&, Update& u) {
  u.parameter = u.parameter * u.constants[0] + u.gradient * u.rate;
}

/// What multiplies gradients whose norm is larger than `limit`.
Array clip_factor(const Array& sum_of_squares, double limit) {
  return limit / maximum(sqrt(sum_of_squares), limit);
}

Array sum_of_squares(const Array& gradient) {
  return sum(square(convert(gradient, at::kDouble)), all_axes(gradient.rank()));
}

// strata::update_step(numbers, parameters, gradients, slots, rule, options): one step of an optimizer.
// `numbers`: optimizers::StepNumbers, of double. `slots`: of each parameter those of the rule, then its average and the
// gradients that are accumulated, if there are such. `options`: what multiplies gradients, clipnorm, global_clipnorm,
// clipvalue, whether averages are kept, how many steps accumulate, the weight decay of each parameter, and whether
// it has the rule of those that are left out.
class UpdateStep {
 public:
  explicit UpdateStep(NodeLowering& node)
      : node_(node),
        rule_(tensor::rule_from_json(Json::parse(node.text(kRule)))),
        rule_of_left_out_(tensor::rule_of_left_out(rule_)),
        rule_slots_(static_cast<size_t>(tensor::make_rule(rule_)->num_slots())),
        couples_decay_(tensor::make_rule(rule_)->couples_weight_decay()),
        settings_(node.node().arguments[kOptions].number.toDoubleVector()),
        numbers_(node.in(kNumbers)) {}

  void lower() {
    find_gradients();
    if (accumulates()) accumulate();
    clip_by_norms();
    for (size_t k = 0; k < updated_.size(); ++k) update(updated_[k], gradients_[k]);
    if (averages()) {
      for (size_t i = 0; i < node_.list(kParameters).size(); ++i) average(i);
    }
    for (const auto& [id, array] : values_) node_.write_to(id, array);
  }

 private:
  enum { kNumbers, kParameters, kGradients, kSlots, kRule, kOptions };
  enum { kScale, kClipNorm, kGlobalClipNorm, kClipValue, kAverages, kAccumulated, kDecays };
  enum { kRate = 0, kConstants = 1, kUpdates = 7, kAverageRate = 8, kOverwrites = 9 };

  bool averages() const { return settings_[kAverages] > 0; }
  bool accumulates() const { return settings_[kAccumulated] > 0; }
  size_t slots_each() const { return rule_slots_ + (averages() ? 1 : 0) + (accumulates() ? 1 : 0); }
  ValueId slot(size_t i, size_t s) const { return node_.list(kSlots)[i * slots_each() + s]; }
  ValueId average_of(size_t i) const { return slot(i, rule_slots_); }
  ValueId accumulated(size_t i) const { return slot(i, slots_each() - 1); }

  /// As this step has made it so far.
  Array read(ValueId id) {
    const auto found = values_.find(id);
    return found == values_.end() ? node_.read(id) : found->second;
  }
  void write(ValueId id, const Array& array) { values_.insert_or_assign(id, array); }

  Array number(int64_t n, at::ScalarType dtype) const {
    return convert(reshape(slice(numbers_, 0, n, n + 1), {}), dtype);
  }
  /// A number that is 1, for elements of `like`.
  Array holds(int64_t n, const Array& like) const {
    const Array one = compare("GT", number(n, at::kDouble), number_like(numbers_, 0.5));
    return broadcast_to(one, like.sizes);
  }
  /// `now` where the step updates, else `before`.
  Array if_updates(const Array& now, const Array& before) const {
    return accumulates() ? select(holds(kUpdates, now), now, before) : now;
  }

  void find_gradients() {
    for (size_t i = 0; i < node_.list(kParameters).size(); ++i) {
      if (node_.list(kGradients)[i] == kNoValue) continue;
      const Value& parameter = node_.value_of(node_.list(kParameters)[i]);
      updated_.push_back(i);
      gradients_.push_back(convert(node_.read(node_.list(kGradients)[i]), parameter.dtype) *
                           settings_[kScale]);
    }
  }

  /// The gradients become the means of what has been accumulated with this step's.
  void accumulate() {
    for (size_t k = 0; k < updated_.size(); ++k) {
      const ValueId id = accumulated(updated_[k]);
      const Array sum = read(id) + gradients_[k];
      write(id, if_updates(zeros_like(sum), sum));
      gradients_[k] = sum * (1 / settings_[kAccumulated]);
    }
  }

  void clip_by_norms() {
    if (gradients_.empty() || (settings_[kClipNorm] <= 0 && settings_[kGlobalClipNorm] <= 0))
      return;
    std::vector<Array> squares;
    for (const Array& each : gradients_) squares.push_back(sum_of_squares(each));
    const auto scale = [&](Array& gradient, const Array& factor) {
      gradient = gradient * convert(factor, gradient.dtype);
    };
    if (settings_[kGlobalClipNorm] > 0) {
      Array total = squares[0];
      for (size_t k = 1; k < squares.size(); ++k) total = total + squares[k];
      const Array factor = clip_factor(total, settings_[kGlobalClipNorm]);
      for (Array& each : gradients_) scale(each, factor);
      return;
    }
    for (size_t k = 0; k < gradients_.size(); ++k) {
      scale(gradients_[k], clip_factor(squares[k], settings_[kClipNorm]));
    }
  }

  void update(size_t i, const Array& gradient) {
    const ValueId id = node_.list(kParameters)[i];
    const at::ScalarType dtype = node_.value_of(id).dtype;
    Update now{.parameter = read(id),
               .gradient = gradient,
               .slots = {},
               .rate = number(kRate, dtype),
               .constants = {}};
    for (size_t c = 0; c < now.constants.size(); ++c) {
      now.constants[c] = number(kConstants + static_cast<int64_t>(c), dtype);
    }
    if (settings_[kClipValue] > 0) {
      now.gradient = minimum(maximum(now.gradient, -settings_[kClipValue]), settings_[kClipValue]);
    }
    const double decay = settings_[kDecays + i];
    const bool left_out = settings_[kDecays + node_.list(kParameters).size() + i] > 0;
    if (couples_decay_ && !left_out) {
      now.weight_decay = decay;
    } else if (decay > 0) {
      now.parameter = now.parameter - now.parameter * decay * now.rate;
    }
    for (size_t s = 0; s < rule_slots_; ++s) now.slots.push_back(read(slot(i, s)));
    std::visit([&](const auto& rule) { apply(rule, now); }, left_out ? rule_of_left_out_ : rule_);
    write(id, if_updates(now.parameter, read(id)));
    for (size_t s = 0; s < rule_slots_; ++s) {
      write(slot(i, s), if_updates(now.slots[s], read(slot(i, s))));
    }
  }

  void average(size_t i) {
    const ValueId id = node_.list(kParameters)[i];
    const Array parameter = read(id), before = read(average_of(i));
    const Array now = towards(before, parameter, number(kAverageRate, parameter.dtype));
    write(average_of(i), now);
    write(id, select(holds(kOverwrites, now), now, parameter));
  }

  NodeLowering& node_;
  const tensor::RuleOptions rule_;
  const tensor::RuleOptions rule_of_left_out_;
  const size_t rule_slots_;
  const bool couples_decay_;
  const std::vector<double> settings_;
  const Array numbers_;
  std::vector<size_t> updated_;  // those that have a gradient
  std::vector<Array> gradients_;
  std::map<ValueId, Array> values_;  // that the step has made
};

void update_step(NodeLowering& node) { UpdateStep(node).lower(); }

}  // namespace

const Rules& update_rules() {
  static const Rules rules = {{"strata::update_step", {update_step}}};
  return rules;
}

}  // namespace strata::graph::stablehlo
