#pragma once

#include <optional>

#include "keras/layers/gated_cell.h"
#include "kernels/masked_recurrent.h"

namespace strata::layers {

/// The steps that count in one operator; nothing where that does not apply.
std::optional<kernels::MaskedOutputs> masked_steps(GatedRun& run,
                                                   const kernels::MaskedInputs& inputs,
                                                   const kernels::ShownSteps& steps,
                                                   const kernels::MaskedOptions& options);

/// The same in a step that is traced, where the mask has no values yet: one node forward and one
/// backward, whose runs read the mask.
/// @param shown  `[time, batch]` bool, contiguous.
std::optional<kernels::MaskedOutputs> masked_steps_in_trace(GatedRun& run,
                                                            const kernels::MaskedInputs& inputs,
                                                            const at::Tensor& shown,
                                                            const kernels::MaskedOptions& options);

}  // namespace strata::layers
