#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "strata/core/export.h"
#include "strata/optim/optimizer.h"

/// What Keras keeps of an optimizer in `optimizer/vars` of a weights file: in which order, says
/// src/keras_files/optimizer_layout.h.
namespace strata::keras {

/// The optimizer's state as Keras would write it: iterations (int64), learning rate (float32,
/// unless it follows a schedule), then averages, accumulators and slots of `trainable`.
///
/// @param trainable  The optimizer's variables in the order of Keras's `model.trainable_variables`.
/// @return On the CPU, copies. Of an optimizer without variables only the first two.
/// @throws Error  kInvalidArgument: `trainable` are not the optimizer's variables.
///                kUnimplemented: a user-defined class.
STRATA_API std::vector<at::Tensor> export_state(const optimizers::Optimizer& optimizer,
                                                std::span<const Variable> trainable);

/// The way back, bit for bit, on every replica. Outside `run`.
///
/// What a model has that was compiled and never trained (iterations and learning rate alone) is
/// taken. Any other count than export_state's means that the state is another optimizer's: it is
/// left, with a warning in the log, and training starts from zero, as in Keras.
///
/// @return False if it was left.
/// @throws Error  kInvalidArgument: a tensor of another shape than its slot; `trainable` as above.
STRATA_API bool import_state(optimizers::Optimizer& optimizer, std::span<const Variable> trainable,
                             std::span<const at::Tensor> state);

}  // namespace strata::keras
