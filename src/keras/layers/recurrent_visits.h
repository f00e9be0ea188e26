#pragma once

/// What recurrent layers and their cells name alike in a config.
namespace strata::layers {

template <typename Config, typename Options>
void visit_recurrent_weights(Config& config, Options& options) {
  config("activation", options.activation);
  config("use_bias", options.use_bias);
  config("kernel_initializer", options.kernel_initializer);
  config("recurrent_initializer", options.recurrent_initializer);
  config("bias_initializer", options.bias_initializer);
  config("kernel_regularizer", options.kernel_regularizer);
  config("recurrent_regularizer", options.recurrent_regularizer);
  config("bias_regularizer", options.bias_regularizer);
  config("kernel_constraint", options.kernel_constraint);
  config("recurrent_constraint", options.recurrent_constraint);
  config("bias_constraint", options.bias_constraint);
  config("dropout", options.dropout);
  config("recurrent_dropout", options.recurrent_dropout);
  config.ignore("implementation");  // ways to compute one thing
}

template <typename Config, typename Options>
void visit_lstm(Config& config, Options& options) {
  visit_recurrent_weights(config, options);
  config("recurrent_activation", options.recurrent_activation);
  config("unit_forget_bias", options.unit_forget_bias);
  config("seed", options.seed);
}

template <typename Config, typename Options>
void visit_gru(Config& config, Options& options) {
  visit_recurrent_weights(config, options);
  config("recurrent_activation", options.recurrent_activation);
  config("reset_after", options.reset_after);
  config("seed", options.seed);
}

template <typename Config, typename Options>
void visit_sequence(Config& config, Options& options) {
  config("return_sequences", options.return_sequences);
  config("return_state", options.return_state);
  config("go_backwards", options.go_backwards);
  config("stateful", options.stateful);
  config("unroll", options.unroll);
  config("zero_output_for_mask", options.zero_output_for_mask);
}

}  // namespace strata::layers
