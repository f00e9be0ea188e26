#include "tools/simulate/measured_network.h"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "keras/call_context.h"
#include "strata/core/error.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/saving.h"
#include "strata/strategies/one_device_strategy.h"

namespace strata::tools {
namespace {

constexpr int kWarmUp = 2;

/// A layer of the model, and its times in each step.
struct MeasuredLayer {
  std::string name;
  std::vector<Variable> variables;
  std::vector<double> forward = {};
  std::vector<double> backward = {};
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

std::vector<at::Tensor> inputs_of(const keras::Model& model, int64_t batch) {
  std::vector<at::Tensor> inputs;
  for (const keras::SymbolicTensor& input : model.inputs()) {
    std::vector<int64_t> sizes(input.shape().begin(), input.shape().end());
    sizes[0] = batch;
    STRATA_CHECK(std::ranges::find(sizes, keras::kNone) == sizes.end(), kInvalidArgument,
                 "[strata simulate] --measure: got an input of shape ",
                 keras::to_string(input.shape()),
                 "; expected sizes that are known but for the batch");
    inputs.push_back(at::ones(sizes, input.dtype()));
  }
  return inputs;
}

/// Variables that several layers share are the first one's.
std::vector<MeasuredLayer> layers_of(const keras::Model& model) {
  std::vector<MeasuredLayer> layers;
  std::set<const void*> seen;
  for (const keras::Layer& layer : model.layers()) {
    MeasuredLayer measured{.name = std::string(layer->name()), .variables = {}};
    for (const Variable& variable : layer->trainable_variables()) {
      if (seen.insert(variable.state().get()).second) measured.variables.push_back(variable);
    }
    layers.push_back(std::move(measured));
  }
  return layers;
}

/// One pass, forward and backward. By the replica.
class Pass {
 public:
  Pass(const keras::Model& model, std::vector<MeasuredLayer>& layers)
      : model_(model), layers_(layers) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (const Variable& variable : layers_[i].variables) {
        variable.on_replica(0).register_hook([this, i](const at::Tensor& gradient) {
          ready_[i] = recorder_.now();
          return gradient;
        });
      }
    }
  }

  void run(const std::vector<at::Tensor>& inputs, bool counts) {
    ready_.assign(layers_.size(), 0);
    recorder_.take();
    at::Tensor loss;
    {
      const keras::detail::CallContextGuard context(
          {.training = true, .decided = true, .losses = nullptr, .trace = &recorder_});
      loss = model_(inputs).sum();
    }
    const int64_t begin = recorder_.now();
    loss.backward();
    if (counts) keep(begin);
  }

 private:
  void keep(int64_t backward_begin) {
    std::map<std::string, double> forward;
    for (const summary::TraceThread& thread : recorder_.take().threads) {
      for (const summary::TraceSpan& span : thread.spans) {
        forward[span.name] += static_cast<double>(span.duration_ns) * 1e-9;
      }
    }
    int64_t before = backward_begin;
    for (size_t i = layers_.size(); i-- > 0;) {
      layers_[i].forward.push_back(forward[layers_[i].name]);
      const int64_t end = std::max(before, ready_[i]);
      layers_[i].backward.push_back(static_cast<double>(end - before) * 1e-9);
      before = end;
    }
  }

  const keras::Model& model_;
  std::vector<MeasuredLayer>& layers_;
  summary::TraceRecorder recorder_;
  std::vector<int64_t> ready_;  // by layer: when the last gradient was; 0: none
};

}  // namespace

simulate::NetworkTable measure_network(const std::string& path, int64_t batch, int steps) {
  OneDeviceStrategy strategy({.device = "cpu:0"});
  const keras::Model model = strategy.scope([&] { return keras::load_model(path); });
  std::vector<MeasuredLayer> layers = layers_of(model);
  STRATA_CHECK(std::ranges::any_of(
                   layers, [](const MeasuredLayer& each) { return !each.variables.empty(); }),
               kInvalidArgument, "[strata simulate] --measure: got ", path,
               ", a model without weights that are trained; expected some");
  const std::vector<at::Tensor> inputs = inputs_of(model, batch);
  std::cerr << "measuring " << path << ", batch " << batch << ": " << kWarmUp + steps << " steps\n";
  strategy.run([&] {
    Pass pass(model, layers);
    for (int step = 0; step < kWarmUp + steps; ++step) {
      pass.run(inputs, step >= kWarmUp);
    }
  });
  simulate::NetworkTable table{
      .name = std::filesystem::path(path).stem().string(),
      .source = str_cat("measured on ", std::thread::hardware_concurrency(), " cores, medians of ",
                        steps, " steps"),
      .batch = batch,
      .layers = {}};
  for (const MeasuredLayer& each : layers) {
    simulate::Layer layer{.name = each.name,
                          .forward_seconds = median(each.forward),
                          .backward_seconds = median(each.backward)};
    for (const Variable& variable : each.variables) {
      layer.variables.push_back(
          {.name = variable.name(), .shape = variable.sizes().vec(), .dtype = variable.dtype()});
    }
    table.layers.push_back(std::move(layer));
  }
  return table;
}

}  // namespace strata::tools
