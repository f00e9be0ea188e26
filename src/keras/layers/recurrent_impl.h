#pragma once

#include <string>
#include <vector>

#include "keras/fusion.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/recurrent.h"

namespace strata::layers {

/// The tensors that a call's option names: {"tensor": 1}, or (nested) lists of such.
keras::Tensors option_tensors(const Json* option, const keras::Tensors& inputs);
/// `{"initial_state": [{"tensor": 1}, ...]}` for `count` of them; null for none.
Json initial_state_option(size_t count);

/// The words of the input of the call that has begun (keras/fusion.h), or an undefined tensor.
at::Tensor take_words_of_input();

/// What a stateful layer keeps from call to call, zeros at first.
/// @param sequence  Its input. @param states  Their shapes.
/// @throws Error kInvalidArgument: a batch of unknown size. kUnimplemented: several replicas.
std::vector<Variable> make_kept_states(const keras::LayerImpl& layer, const keras::Shape& sequence,
                                       const std::vector<keras::Shape>& states);

/// Zeros again. @throws Error kFailedPrecondition: the layer is not stateful.
void reset_kept_states(const keras::LayerImpl& layer, bool stateful, std::vector<Variable>& states);

/// A cell over time. What LSTM and the others add are fast ways.
class RNNImpl : public keras::LayerImpl, public keras::detail::Fusible {
 public:
  /// Of any class of recurrent layer.
  template <typename Options>
  static RNNOptions sequence_options(const Options& options) {
    return {.return_sequences = options.return_sequences,
            .return_state = options.return_state,
            .go_backwards = options.go_backwards,
            .stateful = options.stateful,
            .unroll = options.unroll,
            .zero_output_for_mask = options.zero_output_for_mask,
            .activity_regularizer = options.activity_regularizer,
            .name = options.name,
            .dtype = options.dtype};
  }

  RNNImpl(const keras::Layer& cell, const RNNOptions& options);

  std::string_view class_name() const override { return "RNN"; }
  keras::detail::FusionRole fusion_role() const override {
    return keras::detail::FusionRole::kRecurrent;
  }
  const RNNOptions& options() const { return options_; }
  size_t num_states() const { return cell_->state_sizes().size(); }

  /// @param states  Empty: as the layer starts by itself.
  /// @param mask    `[batch, time]`, or undefined.
  /// @param words   `[batch, time]`, whose rows of x are equal (keras/fusion.h), or undefined.
  /// @return {output, states...}, states only if they are asked for.
  keras::Tensors go(const at::Tensor& x, keras::Tensors states, const at::Tensor& mask,
                    bool training, const at::Tensor& words = {});
  /// Bidirectional's: where steps are masked the other direction's output counts alone.
  void set_zero_output_for_mask(bool zero) { options_.zero_output_for_mask = zero; }
  void reset_states();

 protected:
  struct Result {
    at::Tensor last;      ///< `[batch, size]`
    at::Tensor sequence;  ///< `[batch, time, size]` if asked for.
    keras::Tensors states;
  };
  /// The whole sequence at once, if this layer has a way for it now. `x` starts at its first step.
  virtual std::optional<Result> try_fused_kernel(const at::Tensor& x, const keras::Tensors& states,
                                                 bool training);
  void describe(keras::ConfigWriter& config) const override;
  RNNCellImpl& cell() const { return *cell_; }

 private:
  void build(const std::vector<keras::Shape>& inputs) override;
  keras::Tensors call(const keras::Tensors& inputs, const keras::Call& call) override;
  std::vector<keras::Shape> compute_output_shapes(const std::vector<keras::Shape>& inputs,
                                                  const Json& options) const override;
  keras::Tensors compute_masks(const keras::Tensors& inputs,
                               const keras::Call& call) const override;
  bool supports_masking() const override { return true; }

  keras::Tensors first_states(const at::Tensor& x, keras::Tensors states) const;
  /// In one operator, if there is one: steps that a mask hides are left out of it.
  std::optional<Result> all_steps(const at::Tensor& x, keras::Tensors states,
                                  const at::Tensor& mask, bool training, const at::Tensor& words);
  Result step_by_step(const at::Tensor& x, keras::Tensors states, const at::Tensor& mask,
                      bool training);

  RNNOptions options_;
  RNNCellImpl* cell_;
  std::vector<Variable> states_;  // of a stateful layer
};

}  // namespace strata::layers
