#include "strata/keras/layers/conv_lstm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "keras/layers/convolve.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/recurrent_impl.h"
#include "keras/layers/recurrent_visits.h"
#include "runtime/context.h"
#include "strata/keras/layer_registry.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

template <size_t N>
struct ConvLSTMArguments {
  int64_t filters = 0;
  keras::Sizes<N> kernel_size = 1;
  ConvLSTMOptions<N> options = {};
};

/// What the layer and its cell name alike.
template <typename Config, keras::OfAnyRank<ConvLSTMArguments> Arguments>
void visit_cell_of(Config& config, Arguments& layer) {
  auto& options = layer.options;
  config("filters", layer.filters);
  config("kernel_size", layer.kernel_size);
  config("strides", options.strides);
  config("padding", options.padding);
  config("data_format", options.data_format);
  config("dilation_rate", options.dilation_rate);
  visit_lstm(config, options);
}

template <typename Config, keras::OfAnyRank<ConvLSTMArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  visit_cell_of(config, layer);
  visit_sequence(config, layer.options);
  config("activity_regularizer", layer.options.activity_regularizer);
}

/// The weights, and one step.
template <size_t N>
class ConvLSTMCellImpl final : public keras::LayerImpl {
 public:
  explicit ConvLSTMCellImpl(const ConvLSTMArguments<N>& arguments)
      : LayerImpl({.name = "conv_lstm_cell", .dtype = arguments.options.dtype}),
        arguments_(arguments) {}
  std::string_view class_name() const override { return "ConvLSTMCell"; }

  /// Shape of a state for a step's input of this shape.
  Shape state_shape(const Shape& step) const {
    return windowed_shape(name(), "kernel_size", input_windows(), step,
                          arguments_.options.data_format, arguments_.filters);
  }

  /// One pass over a sequence, with what is drawn once for it.
  struct Pass {
    at::Tensor kernel, recurrent, bias;  ///< As libtorch takes them.
    Tensors input_masks = {}, state_masks = {};
    double recurrent_dropout = 0;
  };
  /// @param step  A step's input, `[batch, channels, spatial...]`.
  Pass start(const at::Tensor& step, bool training) const {
    const at::ScalarType compute = dtype().compute_dtype();
    Pass pass{.kernel = plain_kernel(kernel_->value_as(compute), true),
              .recurrent = plain_kernel(recurrent_->value_as(compute), true),
              .bias = bias_ ? bias_->value_as(compute) : at::Tensor()};
    const auto rate = [&](double given) { return training && given < 1 ? given : 0.0; };
    pass.input_masks = masks(step, rate(arguments_.options.dropout));
    pass.recurrent_dropout = rate(arguments_.options.recurrent_dropout);
    return pass;
  }

  /// What the inputs give to the gates at all steps, `[batch, time, 4 * filters, spatial...]`.
  /// @param x  `[batch, time, channels, spatial...]`
  at::Tensor project(const Pass& pass, const at::Tensor& x) const {
    at::Tensor y;
    if (pass.input_masks.empty()) {
      y = convolve(x.flatten(0, 1).contiguous(), pass.kernel, pass.bias, input_windows(), 1);
    } else {
      const Tensors kernels = pass.kernel.chunk(4, 0);
      const Tensors biases = pass.bias.defined() ? pass.bias.chunk(4, 0) : Tensors(4);
      Tensors gates;
      for (size_t g = 0; g < 4; ++g) {
        const at::Tensor shown = x * pass.input_masks[g].unsqueeze(1);
        gates.push_back(
            convolve(shown.flatten(0, 1).contiguous(), kernels[g], biases[g], input_windows(), 1));
      }
      y = at::cat(gates, 1);
    }
    return y.unflatten(0, {x.size(0), x.size(1)});
  }

  /// @param states  {h, c} before, then after: `[batch, filters, spatial...]`.
  void advance(Pass& pass, const at::Tensor& projected, Tensors& states) const {
    const at::Tensor& h = states[0];
    if (pass.recurrent_dropout > 0 && pass.state_masks.empty()) {
      pass.state_masks = masks(h, pass.recurrent_dropout);
    }
    const ConvLSTMOptions<N>& options = arguments_.options;
    const Tensors gates = (projected + recurrent_part(pass, h)).chunk(4, 1);
    // An activation may look along the last axis as the program sees it: softmax.
    const auto apply = [&](const activations::Activation& activation, const at::Tensor& x) {
      return planes_view(activation(user_shape(x, options.data_format)), options.data_format);
    };
    const auto& recurrent = options.recurrent_activation;
    const at::Tensor c = apply(recurrent, gates[1]) * states[1] +
                         apply(recurrent, gates[0]) * apply(options.activation, gates[2]);
    states = {apply(recurrent, gates[3]) * apply(options.activation, c), c};
  }

 private:
  void describe(keras::ConfigWriter& config) const override { visit_cell_of(config, arguments_); }

  Windows input_windows() const {
    const ConvLSTMOptions<N>& options = arguments_.options;
    return {arguments_.kernel_size.values, options.strides.values, options.dilation_rate.values,
            options.padding};
  }

  at::Tensor recurrent_part(const Pass& pass, const at::Tensor& h) const {
    static const Padding kSame = "same";
    static const keras::Sizes<N> kOne = 1;
    const Windows windows{arguments_.kernel_size.values, kOne.values, kOne.values, kSame};
    if (pass.state_masks.empty()) return convolve(h.contiguous(), pass.recurrent, {}, windows, 1);
    const Tensors kernels = pass.recurrent.chunk(4, 0);
    Tensors gates;
    for (size_t g = 0; g < 4; ++g) {
      gates.push_back(convolve((h * pass.state_masks[g]).contiguous(), kernels[g], {}, windows, 1));
    }
    return at::cat(gates, 1);
  }

  /// One for each gate; none if nothing is dropped.
  static Tensors masks(const at::Tensor& like, double rate) {
    Tensors all;
    for (int gate = 0; rate > 0 && gate < 4; ++gate) {
      all.push_back(at::empty(like.sizes(), like.options()).bernoulli_(1 - rate) / (1 - rate));
    }
    return all;
  }

  void build(const std::vector<Shape>& inputs) override {
    const ConvLSTMOptions<N>& options = arguments_.options;
    const int64_t channels = known_channels(name(), inputs.at(0), options.data_format);
    const int64_t filters = arguments_.filters;
    Shape shape(arguments_.kernel_size.values.begin(), arguments_.kernel_size.values.end());
    shape.insert(shape.end(), {channels, 4 * filters});
    kernel_ = add_weight("kernel", shape,
                         {.initializer = options.kernel_initializer,
                          .regularizer = options.kernel_regularizer,
                          .constraint = options.kernel_constraint,
                          .memory_order = kernel_order(N, true)});
    shape[N] = filters;
    recurrent_ = add_weight("recurrent_kernel", shape,
                            {.initializer = options.recurrent_initializer,
                             .regularizer = options.recurrent_regularizer,
                             .constraint = options.recurrent_constraint,
                             .memory_order = kernel_order(N, true)});
    if (!options.use_bias) return;
    bias_ = add_weight("bias", {4 * filters},
                       {.initializer = bias_initializer(),
                        .regularizer = options.bias_regularizer,
                        .constraint = options.bias_constraint});
  }

  initializers::Initializer bias_initializer() const {
    if (!arguments_.options.unit_forget_bias) return arguments_.options.bias_initializer;
    return initializers::Initializer(initializers::Initializer::Function(
        [filters = arguments_.filters, inner = arguments_.options.bias_initializer](
            at::IntArrayRef, at::ScalarType dtype) {
          return at::cat(
              {inner({filters}, dtype), at::ones({filters}, dtype), inner({2 * filters}, dtype)});
        }));
  }

  /// {x, h, c} of one step to {h, h, c}, as Keras's cells.
  Tensors call(const Tensors& inputs, const keras::Call& call) override {
    STRATA_CHECK(inputs.size() == 3, kInvalidArgument, "[keras] Layer \"", name(), "\": got ",
                 inputs.size(), " tensors; expected x and 2 states");
    const std::string& format = arguments_.options.data_format;
    const at::Tensor x = planes_view(inputs[0], format);
    Pass pass = start(x, call.training);
    Tensors states = {planes_view(inputs[1], format), planes_view(inputs[2], format)};
    advance(pass, project(pass, x.unsqueeze(1)).select(1, 0), states);
    const at::Tensor h = user_shape(states[0], format);
    return {h, h, user_shape(states[1], format)};
  }
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json&) const override {
    return {3, state_shape(inputs.at(0))};
  }

  const ConvLSTMArguments<N> arguments_;
  std::optional<Variable> kernel_, recurrent_, bias_;
};

template <size_t N>
class ConvLSTMImpl final : public keras::LayerImpl {
 public:
  explicit ConvLSTMImpl(ConvLSTMArguments<N> arguments)
      : LayerImpl(keras::base_options(arguments.options)),
        class_name_(numbered("ConvLSTM", N, "D")),
        arguments_(checked(std::move(arguments), class_name_)),
        cell_(std::make_shared<ConvLSTMCellImpl<N>>(arguments_)) {
    track("cell", keras::Layer(cell_));
    set_input_spec({{.ndim = static_cast<int64_t>(N) + 3}});
  }
  std::string_view class_name() const override { return class_name_; }

  void reset_states() { reset_kept_states(*this, arguments_.options.stateful, kept_states_); }

 private:
  static ConvLSTMArguments<N> checked(ConvLSTMArguments<N> arguments, const std::string& name) {
    ConvLSTMOptions<N>& options = arguments.options;
    check_filters(name, arguments.filters);
    check_window_options(name, arguments, /*allow_causal=*/false);
    check_strides(name, options.strides.values, options.dilation_rate.values);
    options.dropout = std::clamp(options.dropout, 0.0, 1.0);
    options.recurrent_dropout = std::clamp(options.recurrent_dropout, 0.0, 1.0);
    return arguments;
  }

  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  bool supports_masking() const override { return true; }
  const std::string& format() const { return arguments_.options.data_format; }

  static Shape step_of(Shape shape) {
    shape.erase(shape.begin() + 1);
    return shape;
  }

  void build(const std::vector<Shape>& inputs) override {
    const Shape step = step_of(inputs.at(0));
    const size_t first = first_spatial_axis(format());
    STRATA_CHECK(std::none_of(step.begin() + static_cast<ptrdiff_t>(first),
                              step.begin() + static_cast<ptrdiff_t>(first + N),
                              [](int64_t size) { return size == kNone; }),
                 kInvalidArgument, "[keras] layer '", name(),
                 "': ConvLSTM layers only support static input shapes for the spatial dimension. "
                 "Received invalid input shape: input_shape=",
                 keras::to_string(step));
    cell_->ensure_built({step});
    if (!arguments_.options.stateful) return;
    const Shape state = cell_->state_shape(step);
    kept_states_ = make_kept_states(*this, inputs[0], {state, state});
  }

  /// In the user's shape, as they begin.
  Tensors first_states(const at::Tensor& x, Tensors given) const {
    const Shape shape = cell_->state_shape(step_of(x.sizes().vec()));
    if (given.empty()) {
      for (size_t i = 0; i < 2; ++i) {
        given.push_back(kept_states_.empty() ? at::zeros(shape, x.options())
                                             : kept_states_[i].value().clone());
      }
    }
    STRATA_CHECK(given.size() == 2, kInvalidArgument, "[keras] Layer \"", name(), "\": got ",
                 given.size(), " initial states; expected 2");
    for (at::Tensor& state : given) {
      STRATA_CHECK(state.sizes() == shape, kInvalidArgument, "[keras] Layer \"", name(),
                   "\": an initial state has shape ", keras::to_string(state.sizes().vec()),
                   "; expected ", keras::to_string(shape));
      state = planes_view(state.to(x.scalar_type()), format());
    }
    return given;
  }

  Tensors call(const Tensors& inputs, const keras::Call& call) override {
    const ConvLSTMOptions<N>& options = arguments_.options;
    const at::Tensor given = inputs.at(0).to(dtype().compute_dtype());
    Tensors states = first_states(given, option_tensors(call.option("initial_state"), inputs));
    at::Tensor mask = inputs.size() > 1 ? at::Tensor() : call.mask();
    if (const Tensors one = option_tensors(call.option("mask"), inputs); !one.empty()) {
      mask = one[0];
    }
    at::Tensor x = format() == kChannelsLast ? given.movedim(-1, 2) : given;
    if (options.go_backwards) {
      x = x.flip(1);
      if (mask.defined()) mask = mask.flip(1);
    }
    Tensors outputs;
    at::Tensor last = run(x, mask, states, call.training, outputs);
    if (!kept_states_.empty()) {
      const at::NoGradGuard no_grad;
      for (size_t i = 0; i < 2; ++i) {
        kept_states_[i].assign(user_shape(states[i].detach(), format()));
      }
    }
    Tensors results;
    if (options.return_sequences) {
      const at::Tensor all = at::stack(outputs, 1);
      results.push_back(format() == kChannelsLast ? all.movedim(2, -1) : all);
    } else {
      results.push_back(user_shape(last, format()));
    }
    if (options.return_state) {
      for (const at::Tensor& state : states) results.push_back(user_shape(state, format()));
    }
    for (const at::Tensor& y : results) add_activity_loss(options.activity_regularizer, y);
    return results;
  }

  /// @param x  `[batch, time, channels, spatial...]`
  /// @return the last output; that of each step in `outputs` if they are asked for.
  at::Tensor run(const at::Tensor& x, const at::Tensor& mask, Tensors& states, bool training,
                 Tensors& outputs) const {
    STRATA_CHECK(x.size(1) > 0, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": got a sequence without a step; expected one or more");
    auto pass = cell_->start(x.select(1, 0), training);
    const Tensors steps = cell_->project(pass, x).unbind(1);
    const at::Tensor zeros = at::zeros({}, x.options());
    at::Tensor last = at::zeros(states[0].sizes(), x.options());
    for (size_t t = 0; t < steps.size(); ++t) {
      Tensors next = states;
      cell_->advance(pass, steps[t], next);
      if (mask.defined()) {
        std::vector<int64_t> sizes(static_cast<size_t>(next[0].dim()), 1);
        sizes[0] = x.size(0);
        const at::Tensor counts =
            mask.select(1, static_cast<int64_t>(t)).to(at::kBool).reshape(sizes);
        last = at::where(counts, next[0], arguments_.options.zero_output_for_mask ? zeros : last);
        for (size_t i = 0; i < 2; ++i) states[i] = at::where(counts, next[i], states[i]);
      } else {
        last = next[0];
        states = std::move(next);
      }
      if (arguments_.options.return_sequences) outputs.push_back(last);
    }
    return last;
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json&) const override {
    const Shape state = cell_->state_shape(step_of(inputs.at(0)));
    Shape output = state;
    if (arguments_.options.return_sequences) output.insert(output.begin() + 1, inputs[0][1]);
    std::vector<Shape> shapes = {output};
    if (arguments_.options.return_state) shapes.insert(shapes.end(), 2, state);
    return shapes;
  }
  Tensors compute_masks(const Tensors&, const keras::Call& call) const override {
    if (!arguments_.options.return_sequences || !call.mask().defined()) return {};
    return {call.mask()};
  }

  const std::string class_name_;
  const ConvLSTMArguments<N> arguments_;
  const std::shared_ptr<ConvLSTMCellImpl<N>> cell_;
  std::vector<Variable> kept_states_;  // of a stateful layer
};

template <size_t N>
std::shared_ptr<ConvLSTMImpl<N>> make_conv_lstm(int64_t filters, keras::Sizes<N> kernel_size,
                                                const ConvLSTMOptions<N>& options) {
  return std::make_shared<ConvLSTMImpl<N>>(ConvLSTMArguments<N>{filters, kernel_size, options});
}

}  // namespace

ConvLSTM1D::ConvLSTM1D(int64_t filters, keras::Sizes<1> kernel_size,
                       const ConvLSTMOptions<1>& options)
    : Layer(make_conv_lstm<1>(filters, kernel_size, options)) {}
ConvLSTM2D::ConvLSTM2D(int64_t filters, keras::Sizes<2> kernel_size,
                       const ConvLSTMOptions<2>& options)
    : Layer(make_conv_lstm<2>(filters, kernel_size, options)) {}
ConvLSTM3D::ConvLSTM3D(int64_t filters, keras::Sizes<3> kernel_size,
                       const ConvLSTMOptions<3>& options)
    : Layer(make_conv_lstm<3>(filters, kernel_size, options)) {}
void ConvLSTM1D::reset_states() const { static_cast<ConvLSTMImpl<1>&>(**this).reset_states(); }
void ConvLSTM2D::reset_states() const { static_cast<ConvLSTMImpl<2>&>(**this).reset_states(); }
void ConvLSTM3D::reset_states() const { static_cast<ConvLSTMImpl<3>&>(**this).reset_states(); }

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> conv_lstm_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("ConvLSTM1D", ConvLSTMImpl<1>, ConvLSTMArguments<1>),
          STRATA_LAYER_CLASS("ConvLSTM2D", ConvLSTMImpl<2>, ConvLSTMArguments<2>),
          STRATA_LAYER_CLASS("ConvLSTM3D", ConvLSTMImpl<3>, ConvLSTMArguments<3>)};
}

}  // namespace strata::keras
