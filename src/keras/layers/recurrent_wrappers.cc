#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>

#include "keras/layers/layer_class.h"
#include "keras/layers/recurrent_impl.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/wrappers.h"

namespace strata::layers {
namespace {

using keras::Call;
using keras::Shape;
using keras::Tensors;

struct BidirectionalArguments {
  std::optional<keras::Layer> layer = {};
  BidirectionalOptions options = {};
};
void visit(keras::ConfigReader& config, BidirectionalArguments& arguments) {
  config("merge_mode", arguments.options.merge_mode);
  Json layer, backward;
  config("layer", layer);
  config("backward_layer", backward);
  arguments.layer = keras::layer_from_config(layer);
  if (!backward.is_null()) arguments.options.backward_layer = keras::layer_from_config(backward);
}

/// A layer made like `layer`, named "<prefix><name>".
keras::Layer made_like(const keras::Layer& layer, const std::string& prefix, bool turned) {
  Json object = keras::to_config(layer);
  Json config = object.at("config");
  std::string name = layer.name();
  if (name.starts_with(prefix)) name.erase(0, prefix.size());
  config.set("name", prefix + name);
  if (turned) config.set("go_backwards", true);
  object.set("config", std::move(config));
  return keras::layer_from_config(object);
}

RNNImpl& as_recurrent(const keras::Layer& layer) {
  auto* impl = dynamic_cast<RNNImpl*>(layer.impl().get());
  STRATA_CHECK(impl != nullptr, kInvalidArgument,
               "[layers] Bidirectional: Please initialize `Bidirectional` layer with a recurrent "
               "layer (LSTM, GRU, SimpleRNN, RNN). Received: '",
               layer.name(), "' of class ", layer->class_name());
  return *impl;
}

class BidirectionalImpl final : public keras::LayerImpl, public keras::detail::Fusible {
 public:
  explicit BidirectionalImpl(const BidirectionalArguments& arguments)
      : LayerImpl(keras::base_options(arguments.options)),
        merge_mode_(arguments.options.merge_mode) {
    static constexpr std::array kModes = {"concat", "sum", "mul", "ave"};
    STRATA_CHECK(
        !merge_mode_ || std::find(kModes.begin(), kModes.end(), *merge_mode_) != kModes.end(),
        kInvalidArgument,
        "[layers] Bidirectional: Invalid merge mode. Received: ", merge_mode_.value_or(""),
        ". Merge mode should be one of {\"sum\", \"mul\", \"ave\", \"concat\", None}");
    as_recurrent(*arguments.layer);
    const keras::Layer forward = made_like(*arguments.layer, "forward_", false);
    const keras::Layer backward = arguments.options.backward_layer
                                      ? *arguments.options.backward_layer
                                      : made_like(*arguments.layer, "backward_", true);
    forward_ = &as_recurrent(forward);
    backward_ = &as_recurrent(backward);
    check_options();
    for (RNNImpl* each : {forward_, backward_}) {
      each->set_zero_output_for_mask(each->options().return_sequences);
    }
    track("forward_layer", forward);
    track("backward_layer", backward);
  }

  std::string_view class_name() const override { return "Bidirectional"; }
  keras::detail::FusionRole fusion_role() const override {
    return keras::detail::FusionRole::kRecurrent;
  }
  void reset_states() {
    forward_->reset_states();
    backward_->reset_states();
  }

 private:
  void check_options() const {
    const RNNOptions& a = forward_->options();
    const RNNOptions& b = backward_->options();
    STRATA_CHECK(a.go_backwards != b.go_backwards, kInvalidArgument,
                 "[layers] Bidirectional: Forward layer and backward layer should have different "
                 "`go_backwards` value. Received: both ",
                 a.go_backwards ? "True" : "False");
    const auto equal = [](const char* attribute, bool forward, bool backward) {
      STRATA_CHECK(forward == backward, kInvalidArgument,
                   "[layers] Bidirectional: Forward layer and backward layer are expected to have "
                   "the same value for attribute \"",
                   attribute, "\", got ", forward, " for forward layer and ", backward,
                   " for backward layer");
    };
    equal("stateful", a.stateful, b.stateful);
    equal("return_sequences", a.return_sequences, b.return_sequences);
    equal("return_state", a.return_state, b.return_state);
  }

  void describe(keras::ConfigWriter& config) const override {
    config("merge_mode", merge_mode_);
    config("layer", keras::to_config(sublayers()[0].second));
    config("backward_layer", keras::to_config(sublayers()[1].second));
  }

  void build(const std::vector<Shape>& inputs) override {
    forward_->ensure_built({inputs.at(0)});
    backward_->ensure_built({inputs.at(0)});
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json&) const override {
    std::vector<Shape> shapes = forward_->output_shapes({inputs.at(0)});
    const std::vector<Shape> other = backward_->output_shapes({inputs.at(0)});
    if (!merge_mode_) {
      shapes.insert(shapes.begin() + 1, other[0]);
    } else if (*merge_mode_ == "concat") {
      shapes[0].back() += other[0].back();
    }
    shapes.insert(shapes.end(), other.begin() + 1, other.end());
    return shapes;
  }

  Tensors call(const Tensors& inputs, const Call& call) override {
    const Tensors states = option_tensors(call.option("initial_state"), inputs);
    STRATA_CHECK(
        states.empty() || states.size() == forward_->num_states() + backward_->num_states(),
        kInvalidArgument, "[keras] Layer \"", name(), "\": got ", states.size(),
        " initial states; expected ", forward_->num_states() + backward_->num_states());
    at::Tensor mask = states.empty() ? call.mask() : at::Tensor();
    if (const Tensors given = option_tensors(call.option("mask"), inputs); !given.empty()) {
      mask = given[0];
    }
    const auto middle =
        states.begin() + static_cast<std::ptrdiff_t>(states.empty() ? 0 : forward_->num_states());
    const at::Tensor words = take_words_of_input();
    Tensors ahead =
        forward_->go(inputs.at(0), Tensors(states.begin(), middle), mask, call.training, words);
    Tensors back =
        backward_->go(inputs[0], Tensors(middle, states.end()), mask, call.training, words);
    if (forward_->options().return_sequences) back[0] = back[0].flip(1);
    Tensors outputs = merged(ahead[0], back[0]);
    outputs.insert(outputs.end(), ahead.begin() + 1, ahead.end());
    outputs.insert(outputs.end(), back.begin() + 1, back.end());
    for (at::Tensor& y : outputs) y = y.to(dtype().compute_dtype());
    return outputs;
  }

  Tensors merged(const at::Tensor& a, const at::Tensor& b) const {
    if (!merge_mode_) return {a, b};
    if (*merge_mode_ == "concat") return {at::cat({a, b}, -1)};
    if (*merge_mode_ == "mul") return {a * b};
    return {*merge_mode_ == "sum" ? a + b : (a + b) / 2};
  }

  Tensors compute_masks(const Tensors&, const Call& call) const override {
    if (!forward_->options().return_sequences || !call.mask().defined()) return {};
    return Tensors(merge_mode_ ? 1 : 2, call.mask());
  }
  bool supports_masking() const override { return true; }

  std::optional<std::string> merge_mode_;
  RNNImpl* forward_;
  RNNImpl* backward_;
};

// --- TimeDistributed

struct TimeDistributedArguments {
  std::optional<keras::Layer> layer = {};
  TimeDistributedOptions options = {};
};
void visit(keras::ConfigReader& config, TimeDistributedArguments& arguments) {
  Json layer;
  config("layer", layer);
  arguments.layer = keras::layer_from_config(layer);
}

class TimeDistributedImpl final : public keras::UnaryLayerImpl {
 public:
  explicit TimeDistributedImpl(const TimeDistributedArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)),
        layer_(track("layer", *arguments.layer)) {}

  std::string_view class_name() const override { return "TimeDistributed"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    config("layer", keras::to_config(layer_));
  }

  Shape step_shape(const Shape& input) const {
    STRATA_CHECK(input.size() >= 3, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": `TimeDistributed` Layer should be passed an `input_shape` with at least 3 "
                 "dimensions, received: ",
                 keras::to_string(input));
    Shape step = input;
    step.erase(step.begin() + 1);
    return step;
  }

  void build(const Shape& input) override { layer_->ensure_built({step_shape(input)}); }

  Shape compute_output_shape(const Shape& input) const override {
    Shape output = layer_->output_shapes({step_shape(input)}).at(0);
    output.insert(output.begin() + 1, input[1]);
    return output;
  }

  at::Tensor call(const at::Tensor& x, const Call& call) override {
    const at::Tensor mask = call.mask();
    STRATA_CHECK(!mask.defined() ||
                     (mask.dim() >= 2 && mask.size(0) == x.size(0) && mask.size(1) == x.size(1)),
                 kInvalidArgument, "[keras] Layer \"", name(),
                 "\": The `mask` passed to the `TimeDistributed` layer has a shape ",
                 mask.defined() ? mask.sizes() : at::IntArrayRef(),
                 " that is incompatible with the input shape ", x.sizes(),
                 ". The first two dimensions of the mask (batch size and timesteps) must match the "
                 "input's first two dimensions.");
    if (call.training && keeps_statistics()) {
      Tensors steps;
      for (int64_t t = 0; t < x.size(1); ++t) {
        // `[batch]`: which examples count towards a step's statistics.
        steps.push_back(
            step(x.select(1, t), mask.defined() ? mask.select(1, t) : at::Tensor(), call));
      }
      return at::stack(steps, 1);
    }
    // What says which steps count is no step's own mask.
    const bool passes_mask = mask.defined() && mask.dim() > 2;
    const at::Tensor y =
        step(x.flatten(0, 1), passes_mask ? mask.flatten(0, 1) : at::Tensor(), call);
    std::vector<int64_t> shape = y.sizes().vec();
    shape[0] = x.size(0);
    shape.insert(shape.begin() + 1, x.size(1));
    return y.reshape(shape);
  }

  at::Tensor step(const at::Tensor& x, const at::Tensor& mask, const Call& call) const {
    Call inner{.training = call.training};
    if (mask.defined()) inner.masks = {mask};
    return (*layer_)({x}, inner).values.at(0);
  }

  bool keeps_statistics() const {
    // As they were made: freezing changes that.
    const std::function<bool(const keras::LayerImpl&)> keeps = [&](const keras::LayerImpl& layer) {
      for (const keras::Weight& weight : layer.own_weights()) {
        if (!weight.variable.trainable()) return true;
      }
      return std::any_of(layer.sublayers().begin(), layer.sublayers().end(),
                         [&](const auto& each) { return keeps(*each.second); });
    };
    return keeps(*layer_);
  }

  bool supports_masking() const override { return true; }

  keras::Layer layer_;
};

}  // namespace

void Recurrent::reset_states() const {
  if (auto* both = dynamic_cast<BidirectionalImpl*>(impl().get())) {
    both->reset_states();
  } else {
    static_cast<RNNImpl&>(*impl()).reset_states();
  }
}

Bidirectional::Bidirectional(const keras::Layer& layer, const BidirectionalOptions& options)
    : Recurrent(std::make_shared<BidirectionalImpl>(BidirectionalArguments{layer, options})) {}
TimeDistributed::TimeDistributed(const keras::Layer& layer, const TimeDistributedOptions& options)
    : Layer(std::make_shared<TimeDistributedImpl>(TimeDistributedArguments{layer, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> recurrent_wrappers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Bidirectional", BidirectionalImpl, BidirectionalArguments),
          STRATA_LAYER_CLASS("TimeDistributed", TimeDistributedImpl, TimeDistributedArguments)};
}

}  // namespace strata::keras
