#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "optim/step/step.h"
#include "tensor/update_rule.h"

namespace strata::optimizers {

/// What all variables of one update share.
struct UpdateSettings {
  const std::string& rule;  ///< `rule_to_json(...).dump()`
  const tensor::PreparedStep& step;
  double clip_value = 0;
  bool past_caches = false;  ///< Copies are large, and not read soon.
  bool touched_rows_only = false;
};

/// Elements of some variables, with what they are updated by. A variable and what belongs to it lie
/// in memory alike, without gaps.
struct UpdateLists {
  std::vector<at::Tensor> parameters;
  std::vector<int64_t> ranges;         ///< Two each: the first element, and the end.
  std::vector<at::Tensor> gradients;   ///< To be added in tree order; without elements: absent.
  std::vector<int64_t> num_gradients;  ///< Of each.
  std::vector<double> scales;          ///< Of the gradients.
  std::vector<double> weight_decays;
  std::vector<at::Tensor> slots;   ///< As many each as the rule has.
  std::vector<at::Tensor> copies;  ///< Get the new values, rounded if they are of bfloat16.
  std::vector<int64_t> num_copies;

  void clear();
  /// Elements [begin, end) of a variable, without copies and weight decay.
  void add_variable(const at::Tensor& parameter, int64_t begin, int64_t end);
  void add_gradients(const std::vector<at::Tensor>& sources);
};

/// Updates all of them: one call of the operator `strata::update_`. Bits do not depend on how a
/// variable is cut into ranges. Threads: any, on ranges of their own.
void update_(const UpdateSettings& settings, const UpdateLists& lists);

/// One variable's elements, whose gradient has some rows: `strata::update_rows_`. The lists have
/// one variable, and no gradients.
void update_rows_(const UpdateSettings& settings, const UpdateLists& lists,
                  const RowGradient& gradient);

/// Updates the rows of a whole variable that have a gradient, and no others, by libtorch's operators.
void update_touched_rows(const tensor::UpdateRule& rule, const at::Tensor& parameter,
                         const RowGradient& gradient, const std::vector<at::Tensor>& slots,
                         const tensor::UpdateModifiers& modifiers,
                         const tensor::PreparedStep& step);

/// Adds the scaled gradients to the parameters.
void add_scaled_(const UpdateLists& lists);
void add_scaled_rows_(const UpdateLists& lists, const RowGradient& gradient);

/// Moves the parameters towards the gradients: (1 - rate) * parameter + rate * gradient.
void average_(const UpdateLists& lists, double rate);

/// The rule as operators take it.
std::string text_of(const tensor::UpdateRule& rule);

/// All elements of a tensor without gaps, in the order of its memory: an alias.
at::Tensor in_memory_order(const at::Tensor& tensor);

}  // namespace strata::optimizers
