#pragma once

#include <optional>

#include "kernels/recurrent.h"
#include "strata/keras/layers/recurrent_cells.h"

namespace strata::layers {

/// @throws Error kInvalidArgument: not a cell.
RNNCellImpl& as_cell(const keras::Layer& layer, const char* where);

/// A cell's weights in the dtype of the arithmetic.
struct GatedWeights {
  at::Tensor kernel;          ///< `[in, gates * units]`
  at::Tensor recurrent;       ///< `[units, gates * units]`
  at::Tensor input_bias;      ///< `[gates * units]`, or undefined
  at::Tensor recurrent_bias;  ///< Likewise; GRU with reset_after only.
};

/// Rates; 0 for none.
struct CellDropout {
  double input = 0;
  double recurrent = 0;
};

/// A cell of gates: all gates' products are one, and those with the inputs one for all steps.
class GatedRun : public RNNCellImpl::Run {
 public:
  GatedRun(const GatedWeights& weights, const CellDropout& dropout, int64_t gates);

  at::Tensor project(const at::Tensor& x) override;

  const GatedWeights& weights() const { return weights_; }

  /// Whether all steps may be one operator: the gates are the usual ones, no state is dropped.
  virtual bool may_take_all_steps() const { return false; }
  /// All steps in one operator, where it applies.
  /// @param x  `[rows of all steps, in]`, see kernels/recurrent.h.
  /// @param states  Those before; in the end those after.
  /// @return the outputs of all rows.
  virtual std::optional<at::Tensor> all_steps(const at::Tensor& x,
                                              const kernels::SequenceSteps& steps,
                                              keras::Tensors& states);
  bool drops_states() const { return dropout_.recurrent > 0; }
  bool drops_inputs() const { return dropout_.input > 0; }
  /// x `[batch, time, in]` with the inputs dropped that are dropped at every step.
  at::Tensor dropped_inputs(const at::Tensor& x);

 protected:
  /// h recurrent + addend.
  at::Tensor recur(const at::Tensor& h, const at::Tensor& addend);
  /// h as each gate sees it; empty: nothing is dropped.
  keras::Tensors masked_states(const at::Tensor& h);

 private:
  keras::Tensors masks(int64_t rows, int64_t width, double rate, const at::Tensor& like) const;

  GatedWeights weights_;
  CellDropout dropout_;
  int64_t gates_;
  keras::Tensors input_masks_;
  keras::Tensors state_masks_;
};

}  // namespace strata::layers
