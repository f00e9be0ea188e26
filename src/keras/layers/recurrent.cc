#include "strata/keras/layers/recurrent.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/zeros_like.h>

#include "keras/call_context.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/recurrent_impl.h"
#include "keras/layers/recurrent_visits.h"
#include "strata/keras/layer_registry.h"

namespace strata::layers {

using keras::Tensors;

namespace {

struct RNNArguments {
  std::optional<keras::Layer> cell = {};
  RNNOptions options = {};
};
void visit(keras::ConfigReader& config, RNNArguments& arguments) {
  Json cell;
  config("cell", cell);
  arguments.cell = keras::layer_from_config(cell);
  visit_sequence(config, arguments.options);
  config("activity_regularizer", arguments.options.activity_regularizer);
}

class AnyRNNImpl final : public RNNImpl {
 public:
  explicit AnyRNNImpl(const RNNArguments& arguments)
      : RNNImpl(*arguments.cell, arguments.options) {}
};

/// What LSTM, GRU and SimpleRNN have in common: a cell that they make themselves.
template <typename Arguments>
class NamedRNNImpl : public RNNImpl {
 public:
  explicit NamedRNNImpl(const Arguments& arguments)
      : RNNImpl(arguments.make_cell(), sequence_options(arguments.options)), arguments_(arguments) {
    set_input_spec({{.ndim = 3}});
  }

  std::string_view class_name() const override { return Arguments::kClass; }

 protected:
  void describe(keras::ConfigWriter& config) const override {
    config("units", arguments_.units);
    visit_sequence(config, options());
    Arguments::visit_own(config, arguments_.options);
    config("activity_regularizer", arguments_.options.activity_regularizer);
  }

  /// The cell's weights, transposed as libtorch's recurrent functions take them; `order` are the
  /// gates' places. Of one bias two: the second is zero.
  Tensors torch_weights(const at::Tensor& x, const std::vector<int64_t>& order) const {
    const auto gates = [&](const at::Tensor& weight) {
      if (order.empty()) return weight;
      const auto parts = weight.chunk(static_cast<int64_t>(order.size()), -1);
      Tensors sorted;
      for (int64_t gate : order) sorted.push_back(parts[static_cast<size_t>(gate)]);
      return at::cat(sorted, -1);
    };
    Tensors all;
    for (const keras::Weight& weight : cell().own_weights()) {
      const at::Tensor value = gates(weight.variable.value_as(x.scalar_type()));
      if (weight.name != "bias") {
        all.push_back(value.t().contiguous());
      } else if (value.dim() == 2) {
        all.push_back(value[0]);
        all.push_back(value[1]);
      } else {
        all.push_back(value);
        all.push_back(at::zeros_like(value));
      }
    }
    return all;
  }

  bool is_plain(bool training) const {
    const auto& options = arguments_.options;
    return options.activation.name() == "tanh" &&
           options.recurrent_activation.name() == "sigmoid" &&
           !(training && (options.dropout > 0 || options.recurrent_dropout > 0));
  }

  Arguments arguments_;
};

/// What every cell takes of its layer's options.
template <typename CellOptions, typename Options>
CellOptions cell_options(const Options& options, const char* name) {
  CellOptions cell;
  cell.activation = options.activation;
  cell.use_bias = options.use_bias;
  cell.kernel_initializer = options.kernel_initializer;
  cell.recurrent_initializer = options.recurrent_initializer;
  cell.bias_initializer = options.bias_initializer;
  cell.kernel_regularizer = options.kernel_regularizer;
  cell.recurrent_regularizer = options.recurrent_regularizer;
  cell.bias_regularizer = options.bias_regularizer;
  cell.kernel_constraint = options.kernel_constraint;
  cell.recurrent_constraint = options.recurrent_constraint;
  cell.bias_constraint = options.bias_constraint;
  cell.dropout = options.dropout;
  cell.recurrent_dropout = options.recurrent_dropout;
  cell.name = name;
  cell.dtype = options.dtype;
  return cell;
}

struct LSTMArguments {
  static constexpr const char* kClass = "LSTM";
  int64_t units = 0;
  LSTMOptions options = {};

  template <typename Config, typename Options>
  static void visit_own(Config& config, Options& options) {
    visit_lstm(config, options);
    config.ignore("use_cudnn");
  }
  keras::Layer make_cell() const {
    auto cell = cell_options<LSTMCellOptions>(options, "lstm_cell");
    cell.recurrent_activation = options.recurrent_activation;
    cell.unit_forget_bias = options.unit_forget_bias;
    cell.seed = options.seed;
    return LSTMCell(units, cell);
  }
};

class LSTMImpl final : public NamedRNNImpl<LSTMArguments> {
 public:
  using NamedRNNImpl::NamedRNNImpl;

 private:
  std::optional<Result> try_fused_kernel(const at::Tensor& x, const Tensors& states,
                                         bool training) override {
    if (!is_plain(training) || x.dim() != 3) return std::nullopt;
    // On the CPU only float32 has a fused kernel.
    if (x.is_cpu() && x.scalar_type() != at::kFloat) return std::nullopt;
    const auto [sequence, h, c] =
        at::lstm(x, {states[0].unsqueeze(0), states[1].unsqueeze(0)}, torch_weights(x, {}),
                 arguments_.options.use_bias, /*num_layers=*/1, /*dropout=*/0, training,
                 /*bidirectional=*/false, /*batch_first=*/true);
    return Result{
        .last = h.squeeze(0), .sequence = sequence, .states = {h.squeeze(0), c.squeeze(0)}};
  }
};

struct GRUArguments {
  static constexpr const char* kClass = "GRU";
  int64_t units = 0;
  GRUOptions options = {};

  template <typename Config, typename Options>
  static void visit_own(Config& config, Options& options) {
    visit_gru(config, options);
    config.ignore("use_cudnn");
  }
  keras::Layer make_cell() const {
    auto cell = cell_options<GRUCellOptions>(options, "gru_cell");
    cell.recurrent_activation = options.recurrent_activation;
    cell.reset_after = options.reset_after;
    cell.seed = options.seed;
    return GRUCell(units, cell);
  }
};

class GRUImpl final : public NamedRNNImpl<GRUArguments> {
 public:
  using NamedRNNImpl::NamedRNNImpl;

 private:
  std::optional<Result> try_fused_kernel(const at::Tensor& x, const Tensors& states,
                                         bool training) override {
    // On the CPU libtorch runs step by step, too.
    if (x.is_cpu() || !is_plain(training) || x.dim() != 3 || !arguments_.options.reset_after) {
      return std::nullopt;
    }
    const auto [sequence, h] =
        at::gru(x, states[0].unsqueeze(0), torch_weights(x, {1, 0, 2}), arguments_.options.use_bias,
                /*num_layers=*/1, /*dropout=*/0, training, /*bidirectional=*/false,
                /*batch_first=*/true);
    return Result{.last = h.squeeze(0), .sequence = sequence, .states = {h.squeeze(0)}};
  }
};

struct SimpleRNNArguments {
  static constexpr const char* kClass = "SimpleRNN";
  int64_t units = 0;
  SimpleRNNOptions options = {};

  template <typename Config, typename Options>
  static void visit_own(Config& config, Options& options) {
    visit_recurrent_weights(config, options);
    config.ignore("seed");
  }
  keras::Layer make_cell() const {
    return SimpleRNNCell(units, cell_options<SimpleRNNCellOptions>(options, "simple_rnn_cell"));
  }
};

class SimpleRNNImpl final : public NamedRNNImpl<SimpleRNNArguments> {
 public:
  using NamedRNNImpl::NamedRNNImpl;
};

template <typename Arguments>
void visit_named(keras::ConfigReader& config, Arguments& arguments) {
  config("units", arguments.units);
  visit_sequence(config, arguments.options);
  Arguments::visit_own(config, arguments.options);
  config("activity_regularizer", arguments.options.activity_regularizer);
}
void visit(keras::ConfigReader& config, LSTMArguments& arguments) {
  visit_named(config, arguments);
}
void visit(keras::ConfigReader& config, GRUArguments& arguments) { visit_named(config, arguments); }
void visit(keras::ConfigReader& config, SimpleRNNArguments& arguments) {
  visit_named(config, arguments);
}

template <typename T>
std::vector<T> with_initial(const T& x, const std::vector<T>& states) {
  std::vector<T> inputs{x};
  inputs.insert(inputs.end(), states.begin(), states.end());
  return inputs;
}

template <typename T>
T only(std::vector<T> outputs, const keras::Layer& layer) {
  STRATA_CHECK(outputs.size() == 1, kInvalidArgument, "[keras] layer '", layer.name(), "' has ",
               outputs.size(), " outputs; with_states() gives them all");
  return std::move(outputs[0]);
}

}  // namespace

std::vector<keras::SymbolicTensor> Recurrent::with_states(
    const keras::SymbolicTensor& x, const RecurrentCall<keras::SymbolicTensor>& options) const {
  return call(with_initial(x, options.initial_state),
              initial_state_option(options.initial_state.size()));
}
Tensors Recurrent::with_states(const at::Tensor& x,
                               const RecurrentCall<at::Tensor>& options) const {
  return call(with_initial(x, options.initial_state),
              {.training = keras::detail::training_by_default(),
               .options = initial_state_option(options.initial_state.size())});
}
keras::SymbolicTensor Recurrent::operator()(
    const keras::SymbolicTensor& x, const RecurrentCall<keras::SymbolicTensor>& options) const {
  return only(with_states(x, options), *this);
}
at::Tensor Recurrent::operator()(const at::Tensor& x,
                                 const RecurrentCall<at::Tensor>& options) const {
  return only(with_states(x, options), *this);
}

LSTM::LSTM(int64_t units, const LSTMOptions& options)
    : Recurrent(std::make_shared<LSTMImpl>(LSTMArguments{units, options})) {}
GRU::GRU(int64_t units, const GRUOptions& options)
    : Recurrent(std::make_shared<GRUImpl>(GRUArguments{units, options})) {}
SimpleRNN::SimpleRNN(int64_t units, const SimpleRNNOptions& options)
    : Recurrent(std::make_shared<SimpleRNNImpl>(SimpleRNNArguments{units, options})) {}
RNN::RNN(const keras::Layer& cell, const RNNOptions& options)
    : Recurrent(std::make_shared<AnyRNNImpl>(RNNArguments{cell, options})) {}
RNN::RNN(const std::vector<keras::Layer>& cells, const RNNOptions& options)
    : RNN(StackedRNNCells(cells), options) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> recurrent_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("LSTM", LSTMImpl, LSTMArguments),
          STRATA_LAYER_CLASS("GRU", GRUImpl, GRUArguments),
          STRATA_LAYER_CLASS("SimpleRNN", SimpleRNNImpl, SimpleRNNArguments),
          STRATA_LAYER_CLASS("RNN", AnyRNNImpl, RNNArguments)};
}

}  // namespace strata::keras
