#include "keras/graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "keras/input_layer.h"

namespace strata::keras::detail {
namespace {

/// Where each node's first output stands among the slots.
using Slots = std::unordered_map<const Node*, size_t>;

/// Depth-first from the outputs, inputs in argument order; each node after its inputs.
class Walk {
 public:
  Walk(const std::vector<SymbolicTensor>& inputs, const std::string& model) : model_(model) {
    for (const SymbolicTensor& input : inputs) {
      if (state_.emplace(input.node().get(), kDone).second) order.push_back(input.node().get());
    }
  }

  void visit(const Node* node) {
    if (state_.contains(node)) return;
    STRATA_CHECK(!node->inputs.empty(), kInvalidArgument, "[keras] Model '", model_,
                 "': an output depends on input '", node->layer.name(),
                 "', which is not among the model's inputs; pass it, too");
    state_.emplace(node, kDone);
    for (const SymbolicTensor& input : node->inputs) visit(input.node().get());
    order.push_back(node);
  }

  std::vector<const Node*> order;

 private:
  enum State { kDone };
  const std::string& model_;
  std::unordered_map<const Node*, State> state_;
};

/// Keras's order of layers: by falling depth (the longest way to an output over all calls), then by
/// first visit, depth-first from the outputs. Source: keras.src.ops.function.map_graph.
std::vector<Layer> keras_order(const std::vector<const Node*>& nodes,
                               const std::vector<SymbolicTensor>& inputs,
                               const std::vector<SymbolicTensor>& outputs) {
  std::vector<const LayerImpl*> visits;
  std::unordered_map<const LayerImpl*, size_t> index;
  std::unordered_map<const Node*, bool> seen;
  const std::function<void(const Node*)> visit = [&](const Node* node) {
    if (!seen.emplace(node, true).second) return;
    index.emplace(node->layer.impl().get(), index.size());
    if (std::any_of(inputs.begin(), inputs.end(),
                    [&](const SymbolicTensor& each) { return each.node().get() == node; })) {
      return;
    }
    for (const SymbolicTensor& input : node->inputs) visit(input.node().get());
  };
  for (const SymbolicTensor& output : outputs) visit(output.node().get());

  std::unordered_map<const Node*, int64_t> node_depth;
  std::unordered_map<const LayerImpl*, int64_t> layer_depth;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node* node = *it;
    const int64_t depth = std::max(node_depth[node], layer_depth[node->layer.impl().get()]);
    node_depth[node] = layer_depth[node->layer.impl().get()] = depth;
    for (const SymbolicTensor& input : node->inputs) {
      int64_t& below = node_depth[input.node().get()];
      below = std::max(below, depth + 1);
    }
  }
  for (const SymbolicTensor& input :
       inputs) {  // one that reaches no output: last, first of depth 0
    const LayerImpl* layer = input.node()->layer.impl().get();
    if (index.emplace(layer, 0).second) layer_depth[layer] = 0;
  }

  std::vector<Layer> layers;
  std::unordered_map<const LayerImpl*, bool> listed;
  for (const Node* node : nodes) {
    if (listed.emplace(node->layer.impl().get(), true).second) layers.push_back(node->layer);
  }
  std::stable_sort(layers.begin(), layers.end(), [&](const Layer& a, const Layer& b) {
    const LayerImpl* const left = a.impl().get();
    const LayerImpl* const right = b.impl().get();
    if (layer_depth[left] != layer_depth[right]) return layer_depth[left] > layer_depth[right];
    return index[left] < index[right];
  });
  return layers;
}

}  // namespace

Graph::Graph(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
             const std::string& model)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  Walk walk(inputs_, model);
  for (const SymbolicTensor& output : outputs_) walk.visit(output.node().get());
  nodes_ = std::move(walk.order);
  layers_ = keras_order(nodes_, inputs_, outputs_);

  Slots slots;
  const auto slot = [&](const SymbolicTensor& tensor) {
    return slots.at(tensor.node().get()) + tensor.index();
  };
  for (const SymbolicTensor& input : inputs_) {  // input i stands in slot i
    STRATA_CHECK(slots.emplace(input.node().get(), num_slots_++).second, kInvalidArgument,
                 "[keras] Model '", model, "': input '", input.node()->layer.name(),
                 "' is there twice");
  }
  std::unordered_map<size_t, size_t> last_use;  // slot to step
  for (const Node* node : nodes_) {
    if (slots.contains(node)) continue;
    Step step{
        .layer = node->layer.impl().get(), .node = node, .from = {}, .to = num_slots_, .spent = {}};
    for (const SymbolicTensor& input : node->inputs) step.from.push_back(slot(input));
    for (size_t from : step.from) last_use[from] = steps_.size();
    slots.emplace(node, num_slots_);
    num_slots_ += node->shapes.size();
    steps_.push_back(std::move(step));
  }
  for (const SymbolicTensor& output : outputs_) output_slots_.push_back(slot(output));
  for (const auto& [value, step] : last_use) {
    if (std::find(output_slots_.begin(), output_slots_.end(), value) == output_slots_.end()) {
      steps_[step].spent.push_back(value);
    }
  }
}

LayerImpl::Outputs Graph::run(const Tensors& inputs, const Call& call) const {
  Tensors values(num_slots_);
  Tensors masks(call.masks.empty() ? 0 : num_slots_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    values[i] = inputs[i];
    if (!masks.empty()) masks[i] = call.mask(i);
  }
  Tensors arguments;
  Call inner{.training = call.training};
  for (const Step& step : steps_) {
    arguments.clear();
    inner.masks.clear();
    for (size_t from : step.from) {
      arguments.push_back(values[from]);
      if (!masks.empty()) inner.masks.push_back(masks[from]);
    }
    inner.options = step.node->options;
    LayerImpl::Outputs made = (*step.layer)(arguments, inner);
    if (!made.masks.empty() && masks.empty()) masks.resize(num_slots_);
    for (size_t i = 0; i < made.masks.size(); ++i) masks[step.to + i] = std::move(made.masks[i]);
    for (size_t i = 0; i < made.values.size(); ++i) values[step.to + i] = std::move(made.values[i]);
    for (size_t spent : step.spent) values[spent] = at::Tensor();
  }
  LayerImpl::Outputs results;
  for (size_t slot : output_slots_) {
    results.values.push_back(values[slot]);
    if (!masks.empty()) results.masks.push_back(masks[slot]);
  }
  return results;
}

std::vector<Shape> Graph::shapes_for(const std::vector<Shape>& inputs) const {
  std::vector<Shape> shapes(num_slots_);
  for (size_t i = 0; i < inputs.size(); ++i) shapes[i] = inputs[i];
  for (const Step& step : steps_) {
    std::vector<Shape> from;
    for (size_t slot : step.from) from.push_back(shapes[slot]);
    std::vector<Shape> to = step.layer->output_shapes(from, step.node->options);
    for (size_t i = 0; i < to.size(); ++i) shapes[step.to + i] = std::move(to[i]);
  }
  std::vector<Shape> outputs;
  for (size_t slot : output_slots_) outputs.push_back(shapes[slot]);
  return outputs;
}

}  // namespace strata::keras::detail
