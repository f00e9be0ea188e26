#include "keras/graph/graph.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "keras/call_context.h"
#include "keras/call_options.h"
#include "keras/fusion.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/model_entry.h"
#include "keras_files/call_graph.h"

namespace strata::keras::detail {
namespace {

/// Where each node's first output is among the slots.
using Slots = std::unordered_map<const Node*, size_t>;

/// Of a node that shares its layer with others, the call of the layer that runs before it.
using CallsBefore = std::unordered_map<const Node*, const Node*>;

/// Depth-first from the outputs, inputs in argument order; each node after its inputs.
class Walk {
 public:
  Walk(const std::vector<SymbolicTensor>& inputs, const std::string& model,
       CallsBefore calls_before = {})
      : model_(model), calls_before_(std::move(calls_before)) {
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
    const auto before = calls_before_.find(node);
    if (before != calls_before_.end()) visit(before->second);
    for (const SymbolicTensor& input : node->inputs) visit(input.node().get());
    order.push_back(node);
  }

  std::vector<const Node*> order;

 private:
  enum State { kDone };
  const std::string& model_;
  const CallsBefore calls_before_;
  std::unordered_map<const Node*, State> state_;
};

/// The calls as Keras counts them, and the orders of layers and of calls that follow.
class KerasOrder {
 public:
  KerasOrder(const std::vector<const Node*>& nodes, const std::vector<SymbolicTensor>& inputs,
             const std::vector<SymbolicTensor>& outputs) {
    for (const SymbolicTensor& input : inputs) inputs_.insert(input.node().get());
    masked_ = std::ranges::any_of(nodes, [](const Node* node) {
      return keras_files::begins_masks(node->layer->class_name());
    });
    for (const Node* node : nodes) call_of_.emplace(node, call_of_.size());
    for (const Node* node : nodes) calls_.add_call(call_for(*node));
    std::vector<size_t> input_calls;
    for (const SymbolicTensor& input : inputs) input_calls.push_back(value_of(input).call);
    const auto order = calls_.in_order(values_of(outputs), input_calls);
    for (const size_t layer : order.layers) ordered_.push_back(layers_[layer]);
    std::unordered_map<const LayerImpl*, const Node*> last;
    for (const size_t call : order.calls) {
      const Node* const node = nodes[call];
      const auto [found, is_first] = last.emplace(node->layer.impl().get(), node);
      if (!is_first) calls_before_.emplace(node, std::exchange(found->second, node));
    }
  }

  const std::vector<Layer>& layers() const { return ordered_; }
  const CallsBefore& calls_before() const { return calls_before_; }

 private:
  using Values = std::vector<keras_files::CallGraph::Value>;

  size_t layer_of(const Layer& layer) {
    const auto [found, is_new] = layer_of_.emplace(layer.impl().get(), layers_.size());
    if (is_new) {
      layers_.push_back(layer);
      calls_.add_layer(
          layer.name(),
          masked_ ? keras_files::mask_rule(layer->class_name(), [&] { return layer->config(); })
                  : keras_files::MaskRule{});
    }
    return found->second;
  }

  keras_files::CallGraph::Call call_for(const Node& node) {
    const size_t layer = layer_of(node.layer);
    if (inputs_.contains(&node)) return {.layer = layer};
    const std::vector<SymbolicTensor>& all = node.inputs;
    std::vector<size_t> named, masks;
    collect_tensor_indices(node.options, named);
    if (const Json* mask = node.options.is_object() ? node.options.find("mask") : nullptr)
      collect_tensor_indices(*mask, masks);
    const bool apart = takes_tensors_apart(node.layer->class_name());
    std::vector<SymbolicTensor> first, given;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool by_name = std::ranges::find(named, i) != named.end();
      if (!by_name && (first.empty() || !apart)) first.push_back(all[i]);
    }
    for (const size_t i : masks) given.push_back(all.at(i));
    const at::ScalarType dtype = node.layer->dtype().compute_dtype();
    const bool differs = !first.empty() && first[0].dtype() != dtype;
    const bool has_options = node.options.is_object() && !node.options.as_object().empty();
    return {.layer = layer,
            .inputs = values_of(all),
            .first = values_of(first),
            .masks = values_of(given),
            .is_plain = all.size() == 1 && !has_options && !differs,
            .is_cast = differs && at::isFloatingType(first[0].dtype())};
  }

  keras_files::CallGraph::Value value_of(const SymbolicTensor& tensor) const {
    return {.call = call_of_.at(tensor.node().get()), .output = tensor.index()};
  }
  Values values_of(const std::vector<SymbolicTensor>& tensors) const {
    Values values;
    for (const SymbolicTensor& tensor : tensors) values.push_back(value_of(tensor));
    return values;
  }

  keras_files::CallGraph calls_;
  std::unordered_set<const Node*> inputs_;
  bool masked_;
  std::unordered_map<const Node*, size_t> call_of_;
  std::unordered_map<const LayerImpl*, size_t> layer_of_;
  std::vector<Layer> layers_;
  std::vector<Layer> ordered_;
  CallsBefore calls_before_;
};

FusionRole role_of(const LayerImpl& layer) {
  const auto* fusible = dynamic_cast<const Fusible*>(&layer);
  return fusible == nullptr ? FusionRole::kNone : fusible->fusion_role();
}

/// Offers `fusion` to the layer that is called next; later calls do not find it.
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
  const auto walk_from_outputs = [&](Walk walk) {
    for (const SymbolicTensor& output : outputs_) walk.visit(output.node().get());
    return std::move(walk.order);
  };
  nodes_ = walk_from_outputs(Walk(inputs_, model));
  const KerasOrder order(nodes_, inputs_, outputs_);
  layers_ = order.layers();
  // The calls of a shared layer run as in Keras, since each may leave something behind in it:
  // the moving averages of a BatchNormalization depend on which is the last.
  nodes_ = walk_from_outputs(Walk(inputs_, model, order.calls_before()));

  Slots slots;
  const auto slot = [&](const SymbolicTensor& tensor) {
    return slots.at(tensor.node().get()) + tensor.index();
  };
  for (const SymbolicTensor& input : inputs_) {  // input i is in slot i
    STRATA_CHECK(slots.emplace(input.node().get(), num_slots_++).second, kInvalidArgument,
                 "[keras] Model '", model, "': input '", input.node()->layer.name(),
                 "' is used twice");
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
  fuse_sums_and_normalizations();
  find_words();
  std::unordered_map<size_t, size_t> last_use;  // slot to step
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (size_t from : steps_[i].from) last_use[from] = i;
    if (steps_[i].words) last_use[*steps_[i].words] = i;
  }
  for (const auto& [value, step] : last_use) {
    if (std::find(output_slots_.begin(), output_slots_.end(), value) == output_slots_.end()) {
      steps_[step].spent.push_back(value);
    }
  }
}

std::vector<size_t> Graph::count_uses() const {
  std::vector<size_t> uses(num_slots_);
  for (const Step& step : steps_) {
    for (size_t from : step.from) ++uses[from];
  }
  for (size_t slot : output_slots_) uses[slot] += 2;  // not for one layer alone
  return uses;
}

void Graph::fuse_steps() {
  const std::vector<size_t> uses = count_uses();
  std::unordered_map<size_t, size_t> maker;  // slot to step
  for (size_t i = 0; i < steps_.size(); ++i) maker[steps_[i].to] = i;

  /// The step that makes `slot` for exactly one other, if it has this role.
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

/// The sum's other users get it too, so it may have any. The normalization moves to just behind it.
void Graph::fuse_sums_and_normalizations() {
  std::unordered_map<size_t, size_t> sums;  // slot to step
  for (size_t i = 0; i < steps_.size(); ++i) {
    const bool is_sum = role_of(*steps_[i].layer) == FusionRole::kSum && steps_[i].from.size() == 2;
    const bool taken = i > 0 && steps_[i - 1].covers == 2;
    if (is_sum && !taken) sums[steps_[i].to] = i;
  }
  std::unordered_map<size_t, size_t> behind;  // step of a sum to that of a normalization
  std::vector<bool> moved(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& norm = steps_[i];
    if (role_of(*norm.layer) != FusionRole::kRowNormalization || norm.from.size() != 1) continue;
    const auto sum = sums.find(norm.from[0]);
    if (sum == sums.end() || behind.contains(sum->second)) continue;
    Step& first = steps_[sum->second];
    if (first.layer->dtype().compute_dtype() != norm.layer->dtype().compute_dtype()) continue;
    first.before_normalization = true;
    behind[sum->second] = i;
    moved[i] = true;
  }
  if (behind.empty()) return;
  std::vector<Step> ordered;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (moved[i]) continue;
    ordered.push_back(steps_[i]);
    if (const auto norm = behind.find(i); norm != behind.end()) {
      ordered.push_back(steps_[norm->second]);
    }
  }
  steps_ = std::move(ordered);
}

void Graph::find_words() {
  const std::vector<size_t> uses = count_uses();
  std::unordered_map<size_t, size_t> words_of;  // an embedding's slot to that of its words
  for (const Step& step : steps_) {
    if (role_of(*step.layer) == FusionRole::kEmbedding) words_of[step.to] = step.from[0];
  }
  for (Step& step : steps_) {
    if (role_of(*step.layer) != FusionRole::kRecurrent || uses[step.from[0]] != 1) continue;
    const auto words = words_of.find(step.from[0]);
    if (words != words_of.end()) step.words = words->second;
  }
}

bool Graph::run_normalized_sum(size_t sum, const Call& call, Tensors& values) const {
  const Step& first = steps_[sum];
  const Step& norm = steps_[sum + 1];
  const at::Tensor& x = values[first.from[0]];
  const at::Tensor& beside = values[first.from[1]];
  const at::ScalarType dtype = first.layer->dtype().compute_dtype();
  if (x.sizes() != beside.sizes() || x.scalar_type() != dtype || beside.scalar_type() != dtype) {
    return false;
  }
  Fusion fusion{.beside = beside};
  LayerImpl::Outputs made;
  {
    const FusionGuard guard(&fusion);
    made = (*norm.layer)({x}, {.training = call.training, .options = norm.node->options});
  }
  values[first.to] = std::move(fusion.sum);
  values[norm.to] = std::move(made.values[0]);
  for (const Step* step : {&first, &norm}) {
    for (size_t spent : step->spent) values[spent] = at::Tensor();
  }
  return true;
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
    if (step.before_normalization && masks.empty() && run_normalized_sum(i, call, values)) {
      ++i;
      continue;
    }
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
      if (step.words) fusion.words = values[*step.words];
      const FusionGuard guard(may || step.words ? &fusion : nullptr);
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
