#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/core/export.h"

/// The options of an optimizer are one list of OPTION(type, name, default), with Keras's names and
/// defaults. The list makes the struct of its update rule below and, together with what all
/// optimizers have, `optimizers::<Name>Options`: designated initializers cannot name the members of
/// a base class, so the fields themselves have to be in both.
#define STRATA_SGD_OPTIONS(OPTION) \
  OPTION(double, momentum, 0)      \
  OPTION(bool, nesterov, false)

/// `epsilon` is added outside the bias correction, unlike torch::optim.
#define STRATA_ADAM_OPTIONS(OPTION) \
  OPTION(double, beta_1, 0.9)       \
  OPTION(double, beta_2, 0.999)     \
  OPTION(double, epsilon, 1e-7)     \
  OPTION(bool, amsgrad, false)

#define STRATA_ADAMAX_OPTIONS(OPTION) \
  OPTION(double, beta_1, 0.9)         \
  OPTION(double, beta_2, 0.999)       \
  OPTION(double, epsilon, 1e-7)

#define STRATA_NADAM_OPTIONS(OPTION) \
  OPTION(double, beta_1, 0.9)        \
  OPTION(double, beta_2, 0.999)      \
  OPTION(double, epsilon, 1e-7)

#define STRATA_LAMB_OPTIONS(OPTION) \
  OPTION(double, beta_1, 0.9)       \
  OPTION(double, beta_2, 0.999)     \
  OPTION(double, epsilon, 1e-7)

#define STRATA_LARS_OPTIONS(OPTION) \
  OPTION(double, momentum, 0.9)     \
  OPTION(double, eeta, 0.001)       \
  OPTION(double, epsilon, 0)        \
  OPTION(bool, nesterov, false)

#define STRATA_LION_OPTIONS(OPTION) \
  OPTION(double, beta_1, 0.9)       \
  OPTION(double, beta_2, 0.99)

/// The first four are of the variables that Adam updates instead; `rms_rate` 0 is Keras's None.
#define STRATA_MUON_OPTIONS(OPTION)  \
  OPTION(double, adam_beta_1, 0.9)   \
  OPTION(double, adam_beta_2, 0.999) \
  OPTION(double, epsilon, 1e-7)      \
  OPTION(double, adam_lr_ratio, 1)   \
  OPTION(double, muon_a, 3.4445)     \
  OPTION(double, muon_b, -4.7750)    \
  OPTION(double, muon_c, 2.0315)     \
  OPTION(double, momentum, 0.95)     \
  OPTION(int64_t, ns_steps, 5)       \
  OPTION(bool, nesterov, true)       \
  OPTION(double, rms_rate, 0.2)

#define STRATA_SCHEDULE_FREE_ADAMW_OPTIONS(OPTION) \
  OPTION(double, beta_1, 0.9)                      \
  OPTION(double, beta_2, 0.999)                    \
  OPTION(double, epsilon, 1e-8)                    \
  OPTION(int64_t, warmup_steps, 0)

#define STRATA_ADAGRAD_OPTIONS(OPTION)           \
  OPTION(double, initial_accumulator_value, 0.1) \
  OPTION(double, epsilon, 1e-7)

#define STRATA_ADADELTA_OPTIONS(OPTION) \
  OPTION(double, rho, 0.95)             \
  OPTION(double, epsilon, 1e-7)

#define STRATA_ADAFACTOR_OPTIONS(OPTION) \
  OPTION(double, beta_2_decay, -0.8)     \
  OPTION(double, epsilon_1, 1e-30)       \
  OPTION(double, epsilon_2, 1e-3)        \
  OPTION(double, clip_threshold, 1)

#define STRATA_FTRL_OPTIONS(OPTION)                       \
  OPTION(double, learning_rate_power, -0.5)               \
  OPTION(double, initial_accumulator_value, 0.1)          \
  OPTION(double, l1_regularization_strength, 0)           \
  OPTION(double, l2_regularization_strength, 0)           \
  OPTION(double, l2_shrinkage_regularization_strength, 0) \
  OPTION(double, beta, 0)

#define STRATA_RMSPROP_OPTIONS(OPTION) \
  OPTION(double, rho, 0.9)             \
  OPTION(double, momentum, 0)          \
  OPTION(double, epsilon, 1e-7)        \
  OPTION(bool, centered, false)

#define STRATA_NO_OPTIONS(OPTION)

/// The uses of a list: the members of a struct, and their visit.
#define STRATA_OPTION(type, name, value) type name = value;
#define STRATA_VISIT_OPTION(type, name, value) visit(#name, objects.name...);

/// The body of a rule's struct:
///   visit_options(visit, objects...)  calls `visit("momentum", objects.momentum...)` for each
///     option in order. An object is such a struct, or the options of its optimizer.
///   make()  the rule; defined beside its formula, in src/tensor/.
///     @throws Error kInvalidArgument: a value outside the range that Keras allows.
#define STRATA_RULE(OPTIONS)                                        \
  OPTIONS(STRATA_OPTION)                                            \
  std::unique_ptr<UpdateRule> make() const;                         \
  template <typename Visit, typename... Objects>                    \
  static void visit_options([[maybe_unused]] Visit&& visit,         \
                            [[maybe_unused]] Objects&... objects) { \
    OPTIONS(STRATA_VISIT_OPTION)                                    \
  }

namespace strata::tensor {

class UpdateRule;

struct STRATA_API SGDRule {
  STRATA_RULE(STRATA_SGD_OPTIONS)
};

/// Also AdamW's rule: its weight decay is the span's.
struct STRATA_API AdamRule {
  STRATA_RULE(STRATA_ADAM_OPTIONS)
};

struct STRATA_API AdamaxRule {
  STRATA_RULE(STRATA_ADAMAX_OPTIONS)
};

struct STRATA_API NadamRule {
  STRATA_RULE(STRATA_NADAM_OPTIONS)
};

struct STRATA_API LambRule {
  STRATA_RULE(STRATA_LAMB_OPTIONS)
};

struct STRATA_API LARSRule {
  STRATA_RULE(STRATA_LARS_OPTIONS)
};

struct STRATA_API LionRule {
  STRATA_RULE(STRATA_LION_OPTIONS)
};

/// Of matrices.
struct STRATA_API MuonRule {
  STRATA_RULE(STRATA_MUON_OPTIONS)
};

struct STRATA_API ScheduleFreeAdamWRule {
  STRATA_RULE(STRATA_SCHEDULE_FREE_ADAMW_OPTIONS)
};

struct STRATA_API AdagradRule {
  STRATA_RULE(STRATA_ADAGRAD_OPTIONS)
};

/// epsilon outside the root, as TensorFlow's older optimizers have it.
struct STRATA_API LegacyAdagradRule {
  STRATA_RULE(STRATA_ADAGRAD_OPTIONS)
};

struct STRATA_API AdadeltaRule {
  STRATA_RULE(STRATA_ADADELTA_OPTIONS)
};

struct STRATA_API AdafactorRule {
  STRATA_RULE(STRATA_ADAFACTOR_OPTIONS)
};

struct STRATA_API FtrlRule {
  STRATA_RULE(STRATA_FTRL_OPTIONS)
};

struct STRATA_API RMSpropRule {
  STRATA_RULE(STRATA_RMSPROP_OPTIONS)
};

/// epsilon outside the root, but with momentum.
struct STRATA_API LegacyRMSpropRule {
  STRATA_RULE(STRATA_RMSPROP_OPTIONS)
};

/// The rule (1 - rate) * parameter + rate * gradient, where rate is the step's learning rate. No
/// optimizer uses it.
struct STRATA_API MovingAverageRule {
  STRATA_RULE(STRATA_NO_OPTIONS)
};

/// The options that a rule is made from.
using RuleOptions =
    std::variant<SGDRule, AdamRule, AdamaxRule, NadamRule, LambRule, LARSRule, LionRule, MuonRule,
                 ScheduleFreeAdamWRule, AdagradRule, LegacyAdagradRule, AdadeltaRule, AdafactorRule,
                 FtrlRule, RMSpropRule, LegacyRMSpropRule, MovingAverageRule>;

/// The shape of a slot. kOfRows and kOfColumns are those of means over the last dimension and over
/// the one before it; a variable without two dimensions has one number there.
enum class SlotShape { kOfVariable, kOfRows, kOfColumns };

struct STRATA_API RuleSlot {
  std::string_view name;       ///< Keras's name: "momentum", "velocity", ...
  std::string_view when = {};  ///< The option (not 0, not false) that asks for it; empty: always.
  SlotShape shape = SlotShape::kOfVariable;
  bool starts_as_variable = false;  ///< Its first values are the variable's.

  std::vector<int64_t> shape_of(std::span<const int64_t> variable) const;
};

/// The names of a rule and its state, in files, on the wire and in messages.
struct RuleRow {
  RuleOptions defaults;                       ///< the rule's struct
  std::vector<std::string_view> class_names;  ///< Keras's optimizers that have it: "RMSprop".
  std::string_view name;                      ///< "rmsprop"
  /// In Keras's files a variable's unconditional slots are side by side; after those of all
  /// variables each conditional slot follows, for all variables.
  std::vector<RuleSlot> slots = {};
  std::string_view scalar_state = {};  ///< UpdateRule::carried_name
};

/// One row for each rule.
STRATA_API std::span<const RuleRow> rule_rows();
STRATA_API const RuleRow& row_of(const RuleOptions& options);

/// The rule of variables that an optimizer leaves out of what it does to whole variables: LARS's is
/// SGD with its momentum, Muon's is Adam. Others have no such variables: the rule itself. It takes
/// the steps that `options`' rule prepares.
STRATA_API RuleOptions rule_of_left_out(const RuleOptions& options);

/// @throws Error kInvalidArgument: a value outside the range that Keras allows.
STRATA_API std::unique_ptr<UpdateRule> make_rule(const RuleOptions& options);

}  // namespace strata::tensor
