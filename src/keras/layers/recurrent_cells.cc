#include "strata/keras/layers/recurrent_cells.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "keras/layers/gated_cell.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/recurrent_visits.h"

namespace strata::layers {

using keras::Call;
using keras::Shape;
using keras::Tensors;

namespace {

/// What LSTM, GRU and SimpleRNN have in common.
template <typename Arguments>
class GatedCellImpl : public RNNCellImpl {
 public:
  explicit GatedCellImpl(const Arguments& arguments, int64_t gates)
      : RNNCellImpl(keras::base_options(arguments.options)), arguments_(arguments), gates_(gates) {
    STRATA_CHECK(arguments.units > 0, kInvalidArgument, "[layers] ", Arguments::kClass,
                 ": Received an invalid value for argument `units`, expected a positive integer, "
                 "got ",
                 arguments.units);
  }

  std::string_view class_name() const override { return Arguments::kClass; }
  std::vector<int64_t> state_sizes() const override { return {arguments_.units}; }

 protected:
  void describe(keras::ConfigWriter& config) const override { visit_cell(config, arguments_); }

  virtual Shape bias_shape() const { return {gates_ * arguments_.units}; }
  virtual initializers::Initializer bias_initializer() const {
    return arguments_.options.bias_initializer;
  }

  void build(const std::vector<Shape>& inputs) override {
    const auto& options = arguments_.options;
    const int64_t width = gates_ * arguments_.units;
    kernel_ = add_weight("kernel", {inputs.at(0).back(), width},
                         {.initializer = options.kernel_initializer,
                          .regularizer = options.kernel_regularizer,
                          .constraint = options.kernel_constraint});
    recurrent_ = add_weight("recurrent_kernel", {arguments_.units, width},
                            {.initializer = options.recurrent_initializer,
                             .regularizer = options.recurrent_regularizer,
                             .constraint = options.recurrent_constraint});
    if (options.use_bias) {
      bias_ = add_weight("bias", bias_shape(),
                         {.initializer = bias_initializer(),
                          .regularizer = options.bias_regularizer,
                          .constraint = options.bias_constraint});
    }
  }

  Tensors call(const Tensors& inputs, const Call& call) override {
    const size_t count = state_sizes().size();
    STRATA_CHECK(inputs.size() == count + 1, kInvalidArgument, "[keras] Layer \"", name(),
                 "\": got ", inputs.size(), " tensors; expected x and ", count, " state(s)");
    Tensors states(inputs.begin() + 1, inputs.end());
    const auto run = start(call);
    Tensors outputs{run->advance(run->project(inputs[0]), states)};
    outputs.insert(outputs.end(), states.begin(), states.end());
    return outputs;
  }

  GatedWeights weights() const {
    const auto as_computed = [&](const std::optional<Variable>& variable) {
      return variable ? variable->value_as(dtype().compute_dtype()) : at::Tensor();
    };
    GatedWeights weights{.kernel = as_computed(kernel_),
                         .recurrent = as_computed(recurrent_),
                         .input_bias = as_computed(bias_),
                         .recurrent_bias = {}};
    if (weights.input_bias.defined() && weights.input_bias.dim() == 2) {
      weights.recurrent_bias = weights.input_bias[1];
      weights.input_bias = weights.input_bias[0];
    }
    return weights;
  }

  CellDropout dropout(const Call& call) const {
    const auto rate = [&](double given) {
      return call.training && given > 0 && given < 1 ? given : 0.0;
    };
    return {rate(arguments_.options.dropout), rate(arguments_.options.recurrent_dropout)};
  }

  Arguments arguments_;
  int64_t gates_;
  std::optional<Variable> kernel_;
  std::optional<Variable> recurrent_;
  std::optional<Variable> bias_;
};

// --- LSTM

struct LSTMCellArguments {
  static constexpr const char* kClass = "LSTMCell";
  int64_t units = 0;
  LSTMCellOptions options = {};
};
template <typename Config, typename Arguments>
requires std::is_same_v<std::remove_const_t<Arguments>, LSTMCellArguments>
void visit_cell(Config& config, Arguments& cell) {
  config("units", cell.units);
  visit_lstm(config, cell.options);
}
void visit(keras::ConfigReader& config, LSTMCellArguments& cell) { visit_cell(config, cell); }

/// Those that the operators compute.
template <typename Options>
bool has_usual_gates(const Options& options) {
  return options.activation.name() == "tanh" && options.recurrent_activation.name() == "sigmoid";
}

class LSTMRun final : public GatedRun {
 public:
  LSTMRun(const GatedWeights& weights, const CellDropout& dropout, const LSTMCellOptions& options)
      : GatedRun(weights, dropout, 4), options_(options) {}

  at::Tensor advance(const at::Tensor& projected, Tensors& states) override {
    const auto gates = recur(states.at(0), projected).chunk(4, 1);
    const auto& recurrent = options_.recurrent_activation;
    const at::Tensor c =
        recurrent(gates[1]) * states.at(1) + recurrent(gates[0]) * options_.activation(gates[2]);
    const at::Tensor h = recurrent(gates[3]) * options_.activation(c);
    states = {h, c};
    return h;
  }

  bool may_take_all_steps() const override { return has_usual_gates(options_) && !drops_states(); }
  std::optional<at::Tensor> all_steps(const at::Tensor& x, const kernels::SequenceSteps& steps,
                                      Tensors& states) override {
    auto result = kernels::lstm(x, states.at(0), states.at(1), weights().kernel,
                                weights().recurrent, weights().input_bias, steps);
    if (!result) return std::nullopt;
    states = {std::move(result->h), std::move(result->c)};
    return std::move(result->y);
  }

 private:
  const LSTMCellOptions& options_;
};

class LSTMCellImpl final : public GatedCellImpl<LSTMCellArguments> {
 public:
  explicit LSTMCellImpl(const LSTMCellArguments& arguments) : GatedCellImpl(arguments, 4) {}

  std::vector<int64_t> state_sizes() const override { return {arguments_.units, arguments_.units}; }
  std::unique_ptr<Run> start(const Call& call) override {
    return std::make_unique<LSTMRun>(weights(), dropout(call), arguments_.options);
  }

 private:
  initializers::Initializer bias_initializer() const override {
    if (!arguments_.options.unit_forget_bias) return arguments_.options.bias_initializer;
    return initializers::Initializer(initializers::Initializer::Function(
        [units = arguments_.units, inner = arguments_.options.bias_initializer](
            at::IntArrayRef, at::ScalarType dtype) {
          return at::cat(
              {inner({units}, dtype), at::ones({units}, dtype), inner({2 * units}, dtype)});
        }));
  }
};

// --- GRU

struct GRUCellArguments {
  static constexpr const char* kClass = "GRUCell";
  int64_t units = 0;
  GRUCellOptions options = {};
};
template <typename Config, typename Arguments>
requires std::is_same_v<std::remove_const_t<Arguments>, GRUCellArguments>
void visit_cell(Config& config, Arguments& cell) {
  config("units", cell.units);
  visit_gru(config, cell.options);
}
void visit(keras::ConfigReader& config, GRUCellArguments& cell) { visit_cell(config, cell); }

class GRURun final : public GatedRun {
 public:
  GRURun(const GatedWeights& weights, const CellDropout& dropout, const GRUCellOptions& options)
      : GatedRun(weights, dropout, 3), options_(options) {}

  at::Tensor advance(const at::Tensor& projected, Tensors& states) override {
    const at::Tensor h = states.at(0);
    const auto& recurrent = options_.recurrent_activation;
    at::Tensor z, candidate;
    if (options_.reset_after) {
      const auto x = projected.chunk(3, 1);
      const auto inner = recur(h, weights().recurrent_bias).chunk(3, 1);
      z = recurrent(x[0] + inner[0]);
      candidate = options_.activation(x[2] + recurrent(x[1] + inner[1]) * inner[2]);
    } else {
      const Tensors masked = masked_states(h);
      const auto state = [&](size_t gate) {
        return masked.empty() ? h : masked[std::min(gate, masked.size() - 1)];
      };
      const auto x = projected.chunk(3, 1);
      const auto kernel = weights().recurrent.chunk(3, 1);
      z = recurrent(at::addmm(x[0], state(0), kernel[0]));
      const at::Tensor r = recurrent(at::addmm(x[1], state(1), kernel[1]));
      candidate = options_.activation(at::addmm(x[2], r * state(2), kernel[2]));
    }
    states = {z * h + (1 - z) * candidate};
    return states[0];
  }

  bool may_take_all_steps() const override {
    return has_usual_gates(options_) && !drops_states() && options_.reset_after;
  }
  std::optional<at::Tensor> all_steps(const at::Tensor& x, const kernels::SequenceSteps& steps,
                                      Tensors& states) override {
    auto result =
        kernels::gru(x, states.at(0), weights().kernel, weights().recurrent, weights().input_bias,
                     weights().recurrent_bias, steps, /*reset_first=*/false);
    if (!result) return std::nullopt;
    states = {std::move(result->h)};
    return std::move(result->y);
  }

 private:
  const GRUCellOptions& options_;
};

class GRUCellImpl final : public GatedCellImpl<GRUCellArguments> {
 public:
  explicit GRUCellImpl(const GRUCellArguments& arguments) : GatedCellImpl(arguments, 3) {}

  std::unique_ptr<Run> start(const Call& call) override {
    return std::make_unique<GRURun>(weights(), dropout(call), arguments_.options);
  }

 private:
  Shape bias_shape() const override {
    const int64_t width = 3 * arguments_.units;
    return arguments_.options.reset_after ? Shape{2, width} : Shape{width};
  }
};

// --- SimpleRNN

struct SimpleRNNCellArguments {
  static constexpr const char* kClass = "SimpleRNNCell";
  int64_t units = 0;
  SimpleRNNCellOptions options = {};
};
template <typename Config, typename Arguments>
requires std::is_same_v<std::remove_const_t<Arguments>, SimpleRNNCellArguments>
void visit_cell(Config& config, Arguments& cell) {
  config("units", cell.units);
  visit_recurrent_weights(config, cell.options);
  config("seed", cell.options.seed);
}
void visit(keras::ConfigReader& config, SimpleRNNCellArguments& cell) { visit_cell(config, cell); }

class SimpleRNNRun final : public GatedRun {
 public:
  SimpleRNNRun(const GatedWeights& weights, const CellDropout& dropout,
               const SimpleRNNCellOptions& options)
      : GatedRun(weights, dropout, 1), options_(options) {}

  at::Tensor advance(const at::Tensor& projected, Tensors& states) override {
    states = {options_.activation(recur(states.at(0), projected))};
    return states[0];
  }

 private:
  const SimpleRNNCellOptions& options_;
};

class SimpleRNNCellImpl final : public GatedCellImpl<SimpleRNNCellArguments> {
 public:
  explicit SimpleRNNCellImpl(const SimpleRNNCellArguments& arguments)
      : GatedCellImpl(arguments, 1) {}

  std::unique_ptr<Run> start(const Call& call) override {
    return std::make_unique<SimpleRNNRun>(GatedCellImpl::weights(), dropout(call),
                                          arguments_.options);
  }
};

}  // namespace

LSTMCell::LSTMCell(int64_t units, const LSTMCellOptions& options)
    : Layer(std::make_shared<LSTMCellImpl>(LSTMCellArguments{units, options})) {}
GRUCell::GRUCell(int64_t units, const GRUCellOptions& options)
    : Layer(std::make_shared<GRUCellImpl>(GRUCellArguments{units, options})) {}
SimpleRNNCell::SimpleRNNCell(int64_t units, const SimpleRNNCellOptions& options)
    : Layer(std::make_shared<SimpleRNNCellImpl>(SimpleRNNCellArguments{units, options})) {}
}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> recurrent_cells() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("LSTMCell", LSTMCellImpl, LSTMCellArguments),
          STRATA_LAYER_CLASS("GRUCell", GRUCellImpl, GRUCellArguments),
          STRATA_LAYER_CLASS("SimpleRNNCell", SimpleRNNCellImpl, SimpleRNNCellArguments)};
}

}  // namespace strata::keras
