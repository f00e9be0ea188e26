#include "strata/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "strata/core/error.h"

namespace strata::schedules {
namespace {

double fraction(int64_t iteration, double decay_steps, bool staircase) {
  const double p = static_cast<double>(iteration) / decay_steps;
  return staircase ? std::floor(p) : p;
}

void check_steps(const char* schedule, const char* what, double steps) {
  STRATA_CHECK(steps > 0, kInvalidArgument, "[schedules] ", schedule, ": got ", what, " ", steps,
               "; expected a positive number of steps");
}

}  // namespace

double ExponentialDecay::operator()(int64_t iteration) const {
  return initial_learning_rate * std::pow(decay_rate, fraction(iteration, decay_steps, staircase));
}

double PiecewiseConstantDecay::operator()(int64_t iteration) const {
  const auto interval = std::lower_bound(boundaries.begin(), boundaries.end(), iteration);
  return values[static_cast<size_t>(interval - boundaries.begin())];
}

double PolynomialDecay::operator()(int64_t iteration) const {
  auto step = static_cast<double>(iteration);
  double steps = decay_steps;
  if (cycle) {
    steps *= iteration == 0 ? 1 : std::ceil(step / decay_steps);
  } else {
    step = std::min(step, steps);
  }
  return (initial_learning_rate - end_learning_rate) * std::pow(1 - step / steps, power) +
         end_learning_rate;
}

double InverseTimeDecay::operator()(int64_t iteration) const {
  return initial_learning_rate / (1 + decay_rate * fraction(iteration, decay_steps, staircase));
}

double CosineDecay::operator()(int64_t iteration) const {
  auto step = static_cast<double>(iteration);
  double from = initial_learning_rate;
  if (warmup_target != kNoWarmup) {
    if (step < warmup_steps) {
      return (warmup_target - initial_learning_rate) * (step / warmup_steps) +
             initial_learning_rate;
    }
    step -= warmup_steps;
    from = warmup_target;
  }
  const double cosine =
      0.5 * (1 + std::cos(std::numbers::pi * std::min(step, decay_steps) / decay_steps));
  return from * ((1 - alpha) * cosine + alpha);
}

double CosineDecayRestarts::operator()(int64_t iteration) const {
  double done = static_cast<double>(iteration) / first_decay_steps;
  double restart;
  if (t_mul == 1) {
    restart = std::floor(done);
    done -= restart;
  } else {
    // The sum of i + 1 terms of 1, t_mul, t_mul^2, ... solved for i. At a restart the logarithm may
    // come out just below the whole number.
    const double exact = std::log(1 - done * (1 - t_mul)) / std::log(t_mul);
    restart = std::floor(exact + 1e-9);
    const double scale = std::pow(t_mul, restart);
    done = std::max(0.0, (done - (1 - scale) / (1 - t_mul)) / scale);
  }
  const double cosine = 0.5 * std::pow(m_mul, restart) * (1 + std::cos(std::numbers::pi * done));
  return initial_learning_rate * ((1 - alpha) * cosine + alpha);
}

// Here and not in the header: inlined, GCC 12 warns of an uninitialised std::function that is not
// there.
Schedule::Schedule(double learning_rate) : value_(learning_rate) {}

Schedule::Schedule(ExponentialDecay schedule) : value_(schedule) {
  check_steps("ExponentialDecay", "decay_steps", schedule.decay_steps);
}

Schedule::Schedule(PiecewiseConstantDecay schedule) {
  STRATA_CHECK(
      !schedule.boundaries.empty() && schedule.values.size() == schedule.boundaries.size() + 1,
      kInvalidArgument, "[schedules] PiecewiseConstantDecay: got ", schedule.boundaries.size(),
      " boundaries and ", schedule.values.size(),
      " values; expected at least one boundary and one value more than boundaries");
  STRATA_CHECK(std::is_sorted(schedule.boundaries.begin(), schedule.boundaries.end()),
               kInvalidArgument,
               "[schedules] PiecewiseConstantDecay: got boundaries that do not ascend");
  value_ = std::move(schedule);
}

Schedule::Schedule(PolynomialDecay schedule) : value_(schedule) {
  check_steps("PolynomialDecay", "decay_steps", schedule.decay_steps);
}

Schedule::Schedule(InverseTimeDecay schedule) : value_(schedule) {
  check_steps("InverseTimeDecay", "decay_steps", schedule.decay_steps);
}

Schedule::Schedule(CosineDecay schedule) : value_(schedule) {
  check_steps("CosineDecay", "decay_steps", schedule.decay_steps);
}

Schedule::Schedule(CosineDecayRestarts schedule) : value_(schedule) {
  check_steps("CosineDecayRestarts", "first_decay_steps", schedule.first_decay_steps);
  STRATA_CHECK(schedule.t_mul > 0, kInvalidArgument, "[schedules] CosineDecayRestarts: got t_mul ",
               schedule.t_mul, "; expected a positive factor");
}

Schedule::Schedule(Function function) {
  STRATA_CHECK(function != nullptr, kInvalidArgument,
               "[schedules] Schedule: got an empty function");
  value_ = std::move(function);
}

double Schedule::operator()(int64_t iteration) const {
  return std::visit(
      [&](const auto& value) -> double {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
          return value;
        } else {
          return value(iteration);
        }
      },
      value_);
}

std::string_view Schedule::name() const {
  static constexpr std::string_view kNames[] = {
      "Constant",         "ExponentialDecay", "PiecewiseConstantDecay", "PolynomialDecay",
      "InverseTimeDecay", "CosineDecay",      "CosineDecayRestarts",    "Function"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value_.index()];
}

}  // namespace strata::schedules
