#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "strata/core/export.h"

/// Learning rates as functions of the number of finished steps (0 in the first step).
/// Source: keras.optimizers.schedules 3.15, names, formulas and defaults; computed in double.
namespace strata::schedules {

/// The rate is initial_learning_rate * decay_rate ^ (iteration / decay_steps), with the exponent
/// rounded down if `staircase`.
struct STRATA_API ExponentialDecay {
  double initial_learning_rate;
  double decay_steps;
  double decay_rate;
  bool staircase = false;

  double operator()(int64_t iteration) const;
};

/// The rate is values[i] up to and including boundaries[i], and the last value afterwards.
struct STRATA_API PiecewiseConstantDecay {
  std::vector<int64_t> boundaries;  ///< ascending, at least one
  std::vector<double> values;       ///< one more than boundaries

  double operator()(int64_t iteration) const;
};

/// The rate falls from initial_learning_rate to end_learning_rate along (1 - iteration /
/// decay_steps) ^ power. After decay_steps it stays; with `cycle` decay_steps is stretched to the
/// next multiple instead.
struct STRATA_API PolynomialDecay {
  double initial_learning_rate;
  double decay_steps;
  double end_learning_rate = 1e-4;
  double power = 1;
  bool cycle = false;

  double operator()(int64_t iteration) const;
};

/// The rate is initial_learning_rate / (1 + decay_rate * iteration / decay_steps).
struct STRATA_API InverseTimeDecay {
  double initial_learning_rate;
  double decay_steps;
  double decay_rate;
  bool staircase = false;

  double operator()(int64_t iteration) const;
};

/// The rate is linear from initial_learning_rate to warmup_target in warmup_steps, then half a
/// cosine over decay_steps down to alpha * warmup_target. Without a target there is only the
/// cosine.
struct STRATA_API CosineDecay {
  double initial_learning_rate;
  double decay_steps;
  double alpha = 0;
  double warmup_target = kNoWarmup;
  double warmup_steps = 0;

  static constexpr double kNoWarmup = -1;

  double operator()(int64_t iteration) const;
};

/// The rate consists of half cosines of lengths first_decay_steps * t_mul^i, each starting at
/// m_mul^i (SGDR).
struct STRATA_API CosineDecayRestarts {
  double initial_learning_rate;
  double first_decay_steps;
  double t_mul = 2;
  double m_mul = 1;
  double alpha = 0;

  double operator()(int64_t iteration) const;
};

/// A learning rate of an optimizer: any of the above, a constant, or a function of the iteration. A
/// value; copies are independent.
class STRATA_API Schedule {
 public:
  using Function = std::function<double(int64_t)>;
  using Value = std::variant<double, ExponentialDecay, PiecewiseConstantDecay, PolynomialDecay,
                             InverseTimeDecay, CosineDecay, CosineDecayRestarts, Function>;

  /// @throws Error kInvalidArgument: decay steps that are not positive, boundaries that do not
  ///         ascend or do not fit the values, an empty function.
  Schedule(double learning_rate);             // NOLINT(google-explicit-constructor)
  Schedule(ExponentialDecay schedule);        // NOLINT(google-explicit-constructor)
  Schedule(PiecewiseConstantDecay schedule);  // NOLINT(google-explicit-constructor)
  Schedule(PolynomialDecay schedule);         // NOLINT(google-explicit-constructor)
  Schedule(InverseTimeDecay schedule);        // NOLINT(google-explicit-constructor)
  Schedule(CosineDecay schedule);             // NOLINT(google-explicit-constructor)
  Schedule(CosineDecayRestarts schedule);     // NOLINT(google-explicit-constructor)
  explicit Schedule(Function function);

  /// Returns the learning rate of the step after `iteration` finished ones.
  double operator()(int64_t iteration) const;

  bool is_constant() const { return std::holds_alternative<double>(value_); }
  /// Keras's class name; "Constant" or "Function" for a constant or a function.
  std::string_view name() const;
  /// The value it was made from, for saving.
  const Value& value() const { return value_; }

 private:
  Value value_;
};

}  // namespace strata::schedules
