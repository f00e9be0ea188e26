#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "kernels/recurrent.h"
#include "strata/core/export.h"

/// Recurrent layers behind a mask: the steps that count are one operator.
namespace strata::kernels {

/// The steps that a mask shows, as its values say.
struct ShownSteps {
  explicit ShownSteps(const at::Tensor& shown);

  at::Tensor shown;            ///< `[time, batch]` bool
  at::Tensor places;           ///< Of the rows that count, among all `time * batch`.
  std::vector<int64_t> sizes;  ///< Rows of each step.
};

/// All steps of a sequence: `rows` `[time * batch, in]` with the rows that do not count, `words`
/// `[time * batch]` (SequenceSteps::words) or undefined, and the states before.
struct MaskedInputs {
  at::Tensor rows;
  at::Tensor words;
  std::vector<at::Tensor> states;
};
struct MaskedOptions {
  bool sequence = false;  ///< All outputs are wanted, not only the last.
  bool zero_output = false;
};
struct MaskedOutputs {
  at::Tensor last;      ///< `[batch, units]`
  at::Tensor sequence;  ///< `[time * batch, units]`, if wanted.
  std::vector<at::Tensor> states;
};

/// All steps of a layer: the outputs of all rows; `states` are those before, and in the end those after.
using AllSteps = std::function<std::optional<at::Tensor>(
    const at::Tensor& rows, const SequenceSteps& steps, std::vector<at::Tensor>& states)>;

/// The steps that count, differentiable; nothing where `all_steps` does not apply.
/// @param steps  Some count.
std::optional<MaskedOutputs> masked_steps(const AllSteps& all_steps, const MaskedInputs& inputs,
                                          const ShownSteps& steps, const MaskedOptions& options);

/// A layer of LSTM cells (two states), or of GRU cells whose reset gate takes effect behind the product (one),
/// as two calls, forward and backward.
struct MaskedLayer {
  MaskedOptions options;
  size_t num_states = 0;
  /// Gradients: of rows, states, kernel, recurrent, bias, recurrent bias.
  std::vector<bool> wanted = {};

  size_t num_gates() const { return num_states == 2 ? 4 : 3; }
  size_t num_outputs() const { return num_states + (options.sequence ? 2 : 1); }

  /// The layer as numbers, and back; nothing: they are of none.
  std::vector<double> numbers() const;
  static STRATA_API std::optional<MaskedLayer> of_numbers(const std::vector<double>& numbers);
};

/// One run of it. Threads: one at a time.
class STRATA_API MaskedLayerRun {
 public:
  explicit MaskedLayerRun(MaskedLayer layer) : layer_(std::move(layer)) {}

  /// @param given  rows, shown `[time, batch]` bool, words or undefined, states..., kernel, recurrent, bias or
  ///   undefined, recurrent bias or undefined.
  /// @return last, sequence if wanted, states...; contiguous, without history.
  /// @throws Error  kUnimplemented: these kernels do not apply here.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& given);
  /// @param gradients  Of what forward gave; some may be undefined.
  /// @return Those that are wanted. The run is done.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& gradients);

 private:
  const MaskedLayer layer_;
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> leaves_;
};

/// The backward by itself, which computes the forward again.
/// @param tensors  The gradients of what forward gave, then what it was given.
STRATA_API std::vector<at::Tensor> masked_backward(const MaskedLayer& layer,
                                                   const std::vector<at::Tensor>& tensors);

}  // namespace strata::kernels
