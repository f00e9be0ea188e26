#pragma once

#include <optional>
#include <vector>

#include "keras/layers/gated_cell.h"

namespace strata::layers {

/// The steps that a mask shows, as its values say.
struct ShownSteps {
  explicit ShownSteps(const at::Tensor& shown);

  at::Tensor shown;            ///< `[time, batch]` bool
  at::Tensor places;           ///< Of the rows that count, among all `time * batch`.
  std::vector<int64_t> sizes;  ///< Rows of each step.
};

/// All steps of a sequence: `rows` `[time * batch, in]` with the rows that do not count, `words`
/// `[time * batch]` (keras/fusion.h) or undefined, and the states before.
struct MaskedInputs {
  at::Tensor rows;
  at::Tensor words;
  keras::Tensors states;
};
struct MaskedOptions {
  bool sequence = false;  ///< All outputs are wanted, not only the last.
  bool zero_output = false;
};
struct MaskedOutputs {
  at::Tensor last;      ///< `[batch, units]`
  at::Tensor sequence;  ///< `[time * batch, units]`, if wanted.
  keras::Tensors states;
};

/// The steps that count in one operator; nothing where that does not apply.
std::optional<MaskedOutputs> masked_steps(GatedRun& run, const MaskedInputs& inputs,
                                          const ShownSteps& steps, const MaskedOptions& options);

/// The same in a step that is traced, where the mask has no values yet: one node forward and one
/// backward, whose runs read the mask.
/// @param shown  `[time, batch]` bool, contiguous.
std::optional<MaskedOutputs> masked_steps_in_trace(RNNCellImpl& cell, const keras::Call& call,
                                                   const MaskedInputs& inputs,
                                                   const at::Tensor& shown,
                                                   const MaskedOptions& options);

}  // namespace strata::layers
