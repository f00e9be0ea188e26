#include "keras/graph.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "keras/call_context.h"
#include "keras/fusion.h"
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

FusionRole role_of(const LayerImpl& layer) {
  const auto* fusible = dynamic_cast<const Fusible*>(&layer);
  return fusible == nullptr ? FusionRole::kNone : fusible->fusion_role();
}

/// Offers `fusion` to the layer that is called next; nobody finds it later.
class FusionGuard {
 public:
  explicit FusionGuard(Fusion* fusion) { call_context().fusion = fusion; }
  ~FusionGuard() { call_context().fusion = nullptr; }
  FusionGuard(const FusionGuard&) = delete;
  FusionGuard& operator=(const FusionGuard&) = delete;
};

}  // namespace

at::Tensor as_declared(const at::Tensor& value, const SymbolicTensor& input) {
  const bool numbers = !value.is_floating_point() && at::isFloatingType(input.dtype());
  return numbers ? value.to(input.dtype()) : value;
}

uint64_t next_call_number() {
  static std::atomic<uint64_t> number = 0;
  return number++;
}

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
  for (const Node* node : nodes_) {
    if (slots.contains(node)) continue;
    Step step{
        .layer = node->layer.impl().get(), .node = node, .from = {}, .to = num_slots_, .spent = {}};
    for (const SymbolicTensor& input : node->inputs) step.from.push_back(slot(input));
    slots.emplace(node, num_slots_);
    num_slots_ += node->shapes.size();
    steps_.push_back(std::move(step));
  }
  for (const SymbolicTensor& output : outputs_) output_slots_.push_back(slot(output));
  fuse_steps();
  std::unordered_map<size_t, size_t> last_use;  // slot to step
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (size_t from : steps_[i].from) last_use[from] = i;
  }
  for (const auto& [value, step] : last_use) {
    if (std::find(output_slots_.begin(), output_slots_.end(), value) == output_slots_.end()) {
      steps_[step].spent.push_back(value);
    }
  }
}

void Graph::fuse_steps() {
  std::vector<size_t> uses(num_slots_);
  for (const Step& step : steps_) {
    for (size_t from : step.from) ++uses[from];
  }
  for (size_t slot : output_slots_) uses[slot] += 2;  // not for one layer alone
  std::unordered_map<size_t, size_t> maker;           // slot to step
  for (size_t i = 0; i < steps_.size(); ++i) maker[steps_[i].to] = i;

  /// The step that makes `slot` for nobody but one other, if it has this role.
  const auto only_maker = [&](size_t slot, FusionRole role,
                              const Step& user) -> std::optional<size_t> {
    const auto found = maker.find(slot);
    if (found == maker.end() || uses[slot] != 1) return std::nullopt;
    const Step& step = steps_[found->second];
    const bool same_dtype =
        step.layer->dtype().compute_dtype() == user.layer->dtype().compute_dtype();
    if (role_of(*step.layer) != role || !same_dtype) return std::nullopt;
    return found->second;
  };
  std::vector<std::vector<size_t>> before(steps_.size());  // steps that move to just before
  std::vector<bool> moved(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& relu = steps_[i];
    if (role_of(*relu.layer) != FusionRole::kRelu || relu.from.size() != 1) continue;
    if (const auto norm = only_maker(relu.from[0], FusionRole::kNormalization, relu)) {
      steps_[*norm].covers = 1;
      before[i] = {*norm};
    } else if (const auto sum = only_maker(relu.from[0], FusionRole::kSum, relu);
               sum && steps_[*sum].from.size() == 2) {
      for (const size_t side : {1, 0}) {
        const auto term = only_maker(steps_[*sum].from[side], FusionRole::kNormalization, relu);
        if (!term) continue;
        steps_[*term].covers = 2;
        steps_[*term].beside = steps_[*sum].from[1 - side];
        before[i] = {*term, *sum};
        break;
      }
    }
    for (size_t step : before[i]) moved[step] = true;
  }
  std::vector<Step> ordered;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (moved[i]) continue;
    for (size_t step : before[i]) ordered.push_back(steps_[step]);
    ordered.push_back(steps_[i]);
  }
  steps_ = std::move(ordered);
}

std::vector<const Node*> Graph::nodes_as_made() const {
  std::vector<const Node*> nodes = nodes_;
  std::ranges::sort(nodes, {}, &Node::number);
  return nodes;
}

LayerImpl::Outputs Graph::run(const Tensors& inputs, const Call& call) const {
  Tensors values(num_slots_);
  Tensors masks(call.masks.empty() ? 0 : num_slots_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    values[i] = as_declared(inputs[i], inputs_[i]);
    if (!masks.empty()) masks[i] = call.mask(i);
  }
  Tensors arguments;
  Call inner{.training = call.training};
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    arguments.clear();
    inner.masks.clear();
    for (size_t from : step.from) {
      arguments.push_back(values[from]);
      if (!masks.empty()) inner.masks.push_back(masks[from]);
    }
    inner.options = step.node->options;
    Fusion fusion;
    LayerImpl::Outputs made;
    {
      const bool may = step.covers > 0 && masks.empty();
      if (may && step.beside) fusion.beside = values[*step.beside];
      const FusionGuard guard(may ? &fusion : nullptr);
      made = (*step.layer)(arguments, inner);
    }
    if (fusion.done) {
      for (size_t covered = i; covered <= i + step.covers; ++covered) {
        for (size_t spent : steps_[covered].spent) values[spent] = at::Tensor();
      }
      i += step.covers;
      values[steps_[i].to] = std::move(made.values[0]);
      continue;
    }
    if (!made.masks.empty() && masks.empty()) masks.resize(num_slots_);
    for (size_t k = 0; k < made.masks.size(); ++k) masks[step.to + k] = std::move(made.masks[k]);
    for (size_t k = 0; k < made.values.size(); ++k) values[step.to + k] = std::move(made.values[k]);
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
