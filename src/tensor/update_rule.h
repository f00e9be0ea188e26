#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "strata/core/export.h"
#include "strata/tensor/rule_options.h"

namespace strata::tensor {

/// No rule keeps more state per element than this.
inline constexpr int kMaxSlots = 4;

/// The values that all elements of one step share: the schedule's value, and the number of steps
/// finished before it (0 in the first).
struct StepScalars {
  double learning_rate = 0;
  int64_t iteration = 0;
  /// UpdateRule::next_scalar_state of the step before, for rules that have one
  double scalar_state = 0;
};

/// StepScalars plus the values that a rule derives from them (bias corrections need two `pow`).
/// Make it once for each step with `UpdateRule::prepare` and share it between threads: it is plain
/// data.
struct PreparedStep {
  PreparedStep() = default;
  // Not an aggregate, so that {rate, iteration} means StepScalars.
  PreparedStep(double rate, const std::array<double, 6>& rule_constants)
      : learning_rate(rate), constants(rule_constants) {}

  double learning_rate = 0;
  std::array<double, 6> constants = {};
  /// The variable's, for rules that add it to the gradient (`couples_weight_decay`).
  double weight_decay = 0;
};

/// One contiguous run of elements of one variable. Any alignment; the arrays must not overlap.
template <typename T>
struct UpdateSpan {
  T* parameter = nullptr;
  const T* gradient = nullptr;  ///< nullptr means zeros
  std::array<T*, kMaxSlots> slots = {};
  int64_t size = 0;
  double gradient_scale = 1;  ///< applied first: the denominator, a clip factor; 1 changes no bit
  double clip_value = 0;      ///< > 0: then clamp to [-clip_value, clip_value]
  double weight_decay = 0;    ///< p -= p * weight_decay * learning_rate before the rule, or coupled
  at::IntArrayRef sizes = {};  ///< the variable's shape, for rules of whole variables only
  /// Gets the new parameters, too, by non-temporal stores (core/nontemporal_copy.h: call
  /// `nontemporal_fence` before other threads read them). For large tensors that are not read soon.
  T* copy = nullptr;
};

/// The same three modifiers, for the form over tensors.
struct UpdateModifiers {
  double gradient_scale = 1;
  double clip_value = 0;
  double weight_decay = 0;
};

/// The update of one element, or (Lamb, LARS, Muon, Adafactor) one variable, by an optimizer. Stateless (the
/// slots are the caller's), so any number of threads may use one rule at once.
///
/// The two span forms are the hot path on CPUs: one vectorised pass. Their bits do not depend on
/// how a range is cut into spans, on alignment, or on the instruction set that the processor
/// offers: no fused multiply-add, IEEE division and square root, the same order of operations
/// everywhere. (The exceptions are Ftrl with a learning_rate_power other than -0.5 and 0, which
/// calls libm's pow, and Muon, whose products are libtorch's.)
///
/// Source: Keras 3.15's optimizers, formulas and defaults; LARS's is in lars.cc.
class STRATA_API UpdateRule {
 public:
  virtual ~UpdateRule();
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  /// Keras's name of the optimizer: "sgd", "adam", ...
  std::string_view name() const { return row_.name; }
  /// `make_rule(options())` makes the same rule.
  virtual RuleOptions options() const = 0;
  int num_slots() const { return static_cast<int>(slots_.size()); }
  /// Keras's name of the slot variable: "momentum", "velocity", ... @throws Error kOutOfRange.
  std::string_view slot_name(int slot) const;
  virtual double slot_initial_value(int slot) const;
  /// True for a slot whose first values are the variable's instead: ScheduleFreeAdamW's "momentum".
  bool slot_starts_as_variable(int slot) const;
  /// The shape of a variable's slot: the variable's, except for Adafactor's rows and columns.
  std::vector<int64_t> slot_shape(int slot, at::IntArrayRef sizes) const;

  /// True if an element's step depends on the rest of its variable (norms, means): then a span is a
  /// whole variable, contiguous, and `sizes` is its shape.
  virtual bool whole_variables() const { return false; }

  /// True if the rule itself adds weight decay to the gradient, `gradient + weight_decay *
  /// parameter`: then nothing is subtracted before it.
  virtual bool couples_weight_decay() const { return false; }

  /// The name of a number that the rule keeps from step to step beside the slots, 1 at first:
  /// Nadam's "u_product". Empty if it has none.
  std::string_view carried_name() const { return row_.scalar_state; }
  /// Its value in the step after `iteration` finished ones, from that of the step before.
  virtual double next_scalar_state(double scalar_state, int64_t iteration) const;

  /// True if an element whose gradient is zero keeps parameter and slots bit for bit (except for
  /// weight decay): rows of an embedding without a gradient may be skipped. SGD without momentum,
  /// Adagrad.
  virtual bool zero_gradient_is_identity() const { return false; }

  virtual PreparedStep prepare(const StepScalars& step) const = 0;

  /// Updates `span.parameter` and the slots in place. @pre num_slots() slots are set.
  /// Cost: one pass; about 20 ns a call besides (about 100 with StepScalars). Threads: any.
  void apply(const UpdateSpan<float>& span, const PreparedStep& step) const;
  void apply(const UpdateSpan<double>& span, const PreparedStep& step) const;
  void apply(const UpdateSpan<float>& span, const StepScalars& step) const {
    apply(span, prepare(step));
  }
  void apply(const UpdateSpan<double>& span, const StepScalars& step) const {
    apply(span, prepare(step));
  }

  /// Applies the same rule by ATen operators, in place: any device, any floating dtype, any
  /// strides. An undefined `gradient` means zeros. The result equals the span form's up to
  /// rounding. On a GPU Adam is one kernel, others need several, so pass many variables as one flat
  /// tensor.
  /// @throws Error kInvalidArgument: wrong number of slots.
  void apply(at::Tensor& parameter, const at::Tensor& gradient, std::vector<at::Tensor>& slots,
             const UpdateModifiers& modifiers, const StepScalars& step) const;
  void apply(at::Tensor& parameter, const at::Tensor& gradient, std::vector<at::Tensor>& slots,
             const UpdateModifiers& modifiers, const PreparedStep& step) const;

 protected:
  UpdateRule(int kernel, const RuleRow& row, std::vector<RuleSlot> slots);

  /// Applies one of the kernels to `span`; rules of whole variables consist of several.
  template <typename T>
  static void run_kernel(int kernel, const UpdateSpan<T>& span, const PreparedStep& step);

  /// `gradient` is defined, scaled and clipped.
  virtual void do_apply(at::Tensor& parameter, const at::Tensor& gradient,
                        std::vector<at::Tensor>& slots, const PreparedStep& step) const = 0;

 private:
  /// Calls the kernel; rules of whole variables do more.
  virtual void do_apply_span(const UpdateSpan<float>& span, const PreparedStep& step) const;
  virtual void do_apply_span(const UpdateSpan<double>& span, const PreparedStep& step) const;

  /// Used by rules of whole variables, which pass over them several times.
  template <typename T>
  void apply_and_copy(UpdateSpan<T> span, const PreparedStep& step) const;

  const RuleSlot& slot_at(const char* where, int slot) const;

  int kernel_;
  const RuleRow& row_;
  std::vector<RuleSlot> slots_;  // of the row, what the options ask for
};

}  // namespace strata::tensor
