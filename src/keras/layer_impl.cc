#include "strata/keras/layer_impl.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>

#include "core/checked_size.h"
#include "core/memory_limit.h"
#include "core/mutex.h"
#include "graph/host_call.h"
#include "graph/places.h"
#include "keras/call_context.h"
#include "keras/call_options.h"
#include "keras/default_name.h"
#include "keras/penalties.h"
#include "runtime/context.h"
#include "runtime/variable_placement.h"
#include "strata/runtime/replica_context.h"

namespace strata::keras {
namespace detail {

CallContext& call_context() {
  static thread_local CallContext context;
  return context;
}

bool inside_run() {
  const strata::detail::Context& context = strata::detail::current_context();
  return context.replica != nullptr && context.group != strata::detail::default_group().get();
}

bool training_by_default() {
  const CallContext& context = call_context();
  return context.decided ? context.training : at::GradMode::is_enabled() && inside_run();
}

}  // namespace detail

namespace {

// The layers that are being built on this thread, outermost first: "bidirectional/forward_lstm".
thread_local std::string build_path;  // NOLINT(runtime/string)

class BuildPath {
 public:
  explicit BuildPath(const std::string& name) : previous_(build_path) {
    if (!build_path.empty()) build_path += '/';
    build_path += name;
  }
  ~BuildPath() { build_path = previous_; }
  BuildPath(const BuildPath&) = delete;
  BuildPath& operator=(const BuildPath&) = delete;

 private:
  std::string previous_;
};

using detail::inside_run;

Shape shape_of(const at::Tensor& tensor) { return tensor.sizes().vec(); }

std::vector<Shape> shapes_of(const Tensors& tensors) {
  std::vector<Shape> shapes;
  for (const at::Tensor& tensor : tensors) shapes.push_back(shape_of(tensor));
  return shapes;
}

/// Zeros of these shapes; sizes that are not known become `batch` (the first) or `other`.
Tensors stand_ins(const std::vector<Shape>& shapes, int64_t batch, int64_t other,
                  at::ScalarType dtype, const at::Device& device) {
  Tensors tensors;
  for (Shape shape : shapes) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == kNone) shape[i] = i == 0 ? batch : other;
    }
    tensors.push_back(at::zeros(shape, at::TensorOptions().dtype(dtype).device(device)));
  }
  return tensors;
}

/// Where variables that are made now are read outside of `run`.
at::Device device_of_new_variables() {
  const ReplicaGroup& group = *strata::detail::current_context().group;
  return group.placement().gradient_device(group).value_or(group.device(0).physical);
}

[[noreturn]] void misfit(const std::string& layer, size_t input, const std::string& expected,
                         const Shape& got) {
  STRATA_CHECK(false, kInvalidArgument, "[keras] Input ", input, " of layer \"", layer,
               "\" is incompatible with the layer: expected ", expected,
               ", but received input with shape ", to_string(got));
}

/// The call with the masks that its options name, which go before those that came along.
Call with_named_masks(const Tensors& inputs, const Call& call) {
  Call named{.training = call.training, .masks = call.masks, .options = Json::object()};
  for (const auto& [key, value] : call.options.as_object()) {
    if (key != "mask") named.options.set(key, value);
  }
  const Json& mask = call.options.at("mask");
  const Json::Array list = mask.is_array() ? mask.as_array() : Json::Array{mask};
  named.masks.resize(inputs.size() - detail::count_masks(call.options));
  for (size_t i = 0; i < std::min(list.size(), named.masks.size()); ++i) {
    const int64_t index = detail::tensor_index(list[i]);
    if (index >= 0) named.masks[i] = inputs.at(static_cast<size_t>(index));
  }
  return named;
}

void check_spec(const std::string& layer, size_t i, const InputSpec& spec, const Shape& shape) {
  const auto ndim = static_cast<int64_t>(shape.size());
  if (spec.ndim && *spec.ndim != ndim) {
    misfit(layer, i, str_cat("ndim=", *spec.ndim, ", found ndim=", ndim), shape);
  }
  if (ndim < spec.min_ndim) {
    misfit(layer, i, str_cat("min_ndim=", spec.min_ndim, ", found ndim=", ndim), shape);
  }
  for (const auto& [axis, size] : spec.axes) {
    const int64_t at = axis < 0 ? axis + ndim : axis;
    if (at < 0 || at >= ndim) misfit(layer, i, str_cat("an axis ", axis), shape);
    if (shape[static_cast<size_t>(at)] != kNone && shape[static_cast<size_t>(at)] != size) {
      misfit(layer, i, str_cat("axis ", axis, " of input shape to have value ", size), shape);
    }
  }
}

}  // namespace

/// What the last call on each replica added. Replicas call at once.
class LayerImpl::AddedLosses {
 public:
  void set(Tensors losses) {
    const MutexLock lock(mutex_);
    if (!losses.empty() || !by_replica_.empty()) by_replica_[replica()] = std::move(losses);
  }
  Tensors get() const {
    const MutexLock lock(mutex_);
    const auto found = by_replica_.find(replica());
    return found == by_replica_.end() ? Tensors() : found->second;
  }

 private:
  static int replica() { return inside_run() ? get_replica_context()->local_replica() : -1; }

  mutable Mutex mutex_;
  std::map<int, Tensors> by_replica_ STRATA_GUARDED_BY(mutex_);  ///< -1: outside `run`.
};

LayerImpl::LayerImpl(LayerOptions options)
    : options_(std::move(options)),
      name_(options_.name),
      added_losses_(std::make_unique<AddedLosses>()) {}
LayerImpl::~LayerImpl() = default;

const std::string& LayerImpl::name() const {
  if (name_.empty()) name_ = detail::default_name(class_name());
  return name_;
}

Json LayerImpl::config() const {
  ConfigWriter writer;
  writer("name", name());
  if (writes_trainable()) writer("trainable", options_.trainable);
  writer("dtype", options_.dtype);
  describe(writer);
  return writer.take();
}

void LayerImpl::ensure_built(const std::vector<Shape>& inputs, const Json& options) {
  if (built_) return;
  STRATA_CHECK(!inside_run(), kFailedPrecondition, "[keras] layer '", name(),
               "': called inside run() before it was built; call it (or the model) once in the "
               "strategy's scope, so that every replica has the same weights: strategy.scope([&] { "
               "layer->ensure_built({shape}); }), with keras::kNone for the batch");
  check_inputs(inputs);
  const BuildPath path(name());
  build_options_ = options;
  build(inputs);
  built_ = true;
  build_shapes_ = inputs;
  // Layers inside that `build` left alone are built by what they are called with.
  const bool whole = std::all_of(sublayers_.begin(), sublayers_.end(),
                                 [](const auto& each) { return each.second->built(); });
  if (!whole) {
    built_ = false;  // should the call fail
    const at::NoGradGuard no_grad;
    const detail::CallContextGuard context({.decided = true});
    call(stand_ins(inputs, 2, 2, dtype().compute_dtype(), device_of_new_variables()),
         {.options = options});
    built_ = true;
  }
}

void LayerImpl::build(const std::vector<Shape>&) {}

LayerImpl::Outputs LayerImpl::operator()(const Tensors& inputs, const Call& call) {
  if (const size_t num_masks = detail::count_masks(call.options); num_masks > 0) {
    return (*this)({inputs.begin(), inputs.end() - static_cast<std::ptrdiff_t>(num_masks)},
                   with_named_masks(inputs, call));
  }
  if (!built_) ensure_built(shapes_of(inputs), call.options);
  for (size_t i = 0; i < std::min(inputs.size(), input_spec_.size()); ++i) {
    check_spec(name(), i, input_spec_[i], shape_of(inputs[i]));
  }
  detail::CallContext& context = detail::call_context();
  // Layers inside are called in this one's mode. What they add is, outside fit, the loop's to ask
  // for: it belongs to the layer that the loop called.
  const bool outermost = !context.decided;
  Tensors added;
  struct Restore {
    detail::CallContext& context;
    bool training, decided;
    Tensors* losses;
    ~Restore() {
      context.training = training;
      context.decided = decided;
      context.losses = losses;
    }
  } restore{context, context.training, context.decided, context.losses};
  context.training = call.training;
  context.decided = true;
  std::optional<graph::LayerNameGuard>
      named;  // for messages; a name that nothing has asked for is not made
  if (!name_.empty() && graph::tracing()) named.emplace(name_);
  const bool collects = outermost && context.losses == nullptr;
  if (collects) context.losses = &added;
  Outputs outputs = call_cast(inputs, call);
  if (collects) added_losses_->set(std::move(added));
  return outputs;
}

LayerImpl::Outputs LayerImpl::call_cast(const Tensors& inputs, const Call& call) {
  detail::CallContext& context = detail::call_context();
  const summary::TraceRecorder::Scope span(
      context.trace, context.trace == nullptr ? std::string_view() : std::string_view(name()));
  const at::ScalarType compute = dtype().compute_dtype();
  const bool fits =
      !autocast() || std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor& x) {
        return !x.is_floating_point() || x.scalar_type() == compute;
      });
  if (fits) return call_with_masks(inputs, call);
  Tensors cast = inputs;
  for (at::Tensor& x : cast) {
    if (x.is_floating_point()) x = x.to(compute);
  }
  return call_with_masks(cast, call);
}

LayerImpl::Outputs LayerImpl::call_with_masks(const Tensors& inputs, const Call& call) {
  Outputs outputs{.values = this->call(inputs, call)};
  if (!call.masks.empty() || makes_masks()) outputs.masks = compute_masks(inputs, call);
  return outputs;
}

void LayerImpl::check_inputs(const std::vector<Shape>& inputs) const {
  STRATA_CHECK(input_spec_.empty() || inputs.size() >= input_spec_.size(), kInvalidArgument,
               "[keras] Layer \"", name(), "\" expects ", input_spec_.size(),
               " input(s), but it received ", inputs.size(), " input tensors");
  for (size_t i = 0; i < input_spec_.size(); ++i) check_spec(name(), i, input_spec_[i], inputs[i]);
}

std::vector<Shape> LayerImpl::output_shapes(const std::vector<Shape>& inputs,
                                            const Json& options) const {
  if (const size_t num_masks = detail::count_masks(options); num_masks > 0) {
    return compute_output_shapes(
        {inputs.begin(), inputs.end() - static_cast<std::ptrdiff_t>(num_masks)}, options);
  }
  return compute_output_shapes(inputs, options);
}
std::vector<at::ScalarType> LayerImpl::output_dtypes(
    const std::vector<at::ScalarType>& inputs) const {
  return compute_output_dtypes(inputs);
}

std::vector<Shape> LayerImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                    const Json& options) const {
  const at::NoGradGuard no_grad;
  const detail::CallContextGuard context({.decided = true});
  const at::Device device =
      weights().empty() ? at::Device(at::kCPU) : weights()[0].variable.on_replica(0).device();
  // A size that follows one that is not known differs between the two.
  auto* self = const_cast<LayerImpl*>(this);  // NOLINT: `call` changes nothing
  const auto one = shapes_of(
      self->call(stand_ins(inputs, 2, 5, dtype().compute_dtype(), device), {.options = options}));
  const auto two = shapes_of(
      self->call(stand_ins(inputs, 3, 7, dtype().compute_dtype(), device), {.options = options}));
  std::vector<Shape> shapes = one;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t d = 0; d < shapes[i].size(); ++d) {
      if (one[i][d] != two[i][d]) shapes[i][d] = kNone;
    }
  }
  return shapes;
}

std::vector<at::ScalarType> LayerImpl::compute_output_dtypes(
    const std::vector<at::ScalarType>&) const {
  return {dtype().compute_dtype()};
}

Tensors LayerImpl::compute_masks(const Tensors&, const Call& call) const {
  if (!supports_masking() || !call.mask().defined()) return {};
  return {call.mask()};
}

Variable LayerImpl::add_weight(std::string name, const Shape& shape, const WeightOptions& options) {
  for (int64_t size : shape) {
    STRATA_CHECK(size >= 0, kInvalidArgument, "[keras] layer '", this->name(), "': weight '", name,
                 "' would have shape ", to_string(shape),
                 "; the inputs' sizes that weights depend on must be known");
  }
  const at::ScalarType weight_dtype = options.dtype.value_or(dtype().variable_dtype());
  std::vector<int64_t> factors(shape.begin(), shape.end());
  factors.push_back(static_cast<int64_t>(c10::elementSize(weight_dtype)));
  const auto bytes = strata::detail::checked_product(std::span<const int64_t>(factors));
  STRATA_CHECK(bytes && static_cast<uint64_t>(*bytes) <= strata::detail::memory_limit(),
               kResourceExhausted, "[keras] layer '", this->name(), "': weight '", name,
               "' would have shape ", to_string(shape), " of ", c10::toString(weight_dtype),
               "; expected no more than the ", strata::detail::memory_limit(),
               " bytes of memory that there are");
  at::Tensor value = options.initializer(shape, weight_dtype);
  if (!options.memory_order.empty()) {
    std::vector<int64_t> back(options.memory_order.size());
    for (size_t i = 0; i < back.size(); ++i) {
      back[static_cast<size_t>(options.memory_order[i])] = static_cast<int64_t>(i);
    }
    value = value.permute(options.memory_order).contiguous().permute(back);
  }
  VariableOptions made{.name = str_cat(build_path.empty() ? this->name() : build_path, "/", name),
                       .trainable = options.trainable};
  if (!options.trainable) {
    made.synchronization = VariableSynchronization::kOnRead;
    made.aggregation = options.aggregation;
  }
  Variable variable(value, std::move(made));
  own_weights_.push_back({.name = std::move(name),
                          .variable = variable,
                          .regularizer = options.regularizer,
                          .constraint = options.constraint,
                          .trainable = options.trainable});
  return variable;
}

void LayerImpl::track_layer(std::string name, const Layer& layer) {
  sublayers_.emplace_back(std::move(name), layer);
}

void LayerImpl::add_loss(const at::Tensor& loss) const {
  if (auto* losses = detail::call_context().losses) losses->push_back(loss);
}

void LayerImpl::add_activity_loss(const regularizers::Regularizer& regularizer,
                                  const at::Tensor& y) const {
  if (!regularizer || y.size(0) == 0) return;
  add_loss(regularizer(y) / static_cast<double>(y.size(0)));
}

void LayerImpl::set_trainable(bool trainable) {
  options_.trainable = trainable;
  for (const auto& [name, layer] : sublayers_) layer->set_trainable(trainable);
}

std::vector<Weight> LayerImpl::own_weights() const {
  std::vector<Weight> weights = own_weights_;
  std::stable_partition(weights.begin(), weights.end(),
                        [](const Weight& weight) { return weight.trainable; });
  if (!trainable()) {
    for (Weight& weight : weights) weight.trainable = false;
  }
  return weights;
}

namespace {

/// @param above  The own weights of the layer that `layer` is in: what it shares with that one counts
///               there.
void collect(const LayerImpl& layer, bool trainable, const std::vector<Weight>& above,
             std::unordered_set<const LayerImpl*>& seen, std::vector<Weight>& all) {
  if (!seen.insert(&layer).second) return;
  trainable = trainable && layer.trainable();
  const std::vector<Weight> own = layer.own_weights();
  for (const Weight& weight : own) {
    const auto is_this = [&](const Weight& each) { return each.variable.is_same(weight.variable); };
    if (std::any_of(above.begin(), above.end(), is_this)) continue;
    all.push_back(weight);
    all.back().trainable = weight.trainable && trainable;
  }
  for (const auto& [name, each] : layer.sublayers()) collect(*each, trainable, own, seen, all);
}

std::vector<Variable> variables(const std::vector<Weight>& weights, bool trainable) {
  std::vector<Variable> variables;
  for (const Weight& weight : weights) {
    if (weight.trainable == trainable) variables.push_back(weight.variable);
  }
  return variables;
}

}  // namespace

std::vector<Weight> LayerImpl::weights() const {
  std::unordered_set<const LayerImpl*> seen;
  std::vector<Weight> all;
  collect(*this, true, {}, seen, all);
  return all;
}

std::vector<Variable> LayerImpl::trainable_variables() const { return variables(weights(), true); }
std::vector<Variable> LayerImpl::non_trainable_variables() const {
  return variables(weights(), false);
}

int64_t LayerImpl::count_params() const {
  int64_t count = 0;
  for (const Weight& weight : weights()) count += weight.variable.numel();
  return count;
}

Tensors LayerImpl::losses() const {
  Tensors all = added_losses_->get();
  for (const Weight& weight : weights()) {
    if (weight.regularizer && weight.trainable) {
      all.push_back(weight.regularizer(weight.variable.value()));
    }
  }
  return all;
}

Tensors LayerImpl::get_weights() const {
  Tensors values;
  for (const Weight& weight : weights()) {
    values.push_back(
        weight.variable.value().detach().to(at::kCPU).clone(at::MemoryFormat::Contiguous));
  }
  return values;
}

void LayerImpl::set_weights(const Tensors& values) {
  STRATA_CHECK(!inside_run(), kFailedPrecondition, "[keras] layer '", name(),
               "': set_weights inside run(); call it outside, for all replicas at once");
  const std::vector<Weight> all = weights();
  STRATA_CHECK(values.size() == all.size(), kInvalidArgument, "[keras] layer '", name(),
               "': set_weights got ", values.size(), " tensors; expected ", all.size(),
               built_ ? "" : " (it is not built yet: call it, or give it an Input)",
               ", in the order of get_weights()");
  for (size_t i = 0; i < all.size(); ++i) {
    STRATA_CHECK(values[i].defined() && values[i].sizes() == all[i].variable.sizes(),
                 kInvalidArgument, "[keras] layer '", name(), "': set_weights got ",
                 values[i].defined() ? to_string(shape_of(values[i])) : std::string("nothing"),
                 " for '", all[i].variable.name(), "' (tensor ", i, "); expected ",
                 to_string(all[i].variable.sizes().vec()));
  }
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < all.size(); ++i) {
    Variable variable = all[i].variable;
    variable.assign(values[i].to(variable.dtype()));
  }
}

at::Tensor LayerImpl::regularization_loss() const { return detail::penalties_of(weights()); }

void UnaryLayerImpl::build(const std::vector<Shape>& inputs) { build(inputs.at(0)); }

Tensors UnaryLayerImpl::call(const Tensors& inputs, const Call& call) {
  STRATA_CHECK(inputs.size() == 1, kInvalidArgument, "[keras] Layer \"", name(),
               "\" expects 1 input(s), but it received ", inputs.size(), " input tensors");
  return {this->call(inputs[0], call)};
}

Shape UnaryLayerImpl::compute_output_shape(const Shape& input) const {
  return LayerImpl::compute_output_shapes({input}, {})[0];
}

std::vector<Shape> UnaryLayerImpl::compute_output_shapes(const std::vector<Shape>& inputs,
                                                         const Json&) const {
  return {compute_output_shape(inputs.at(0))};
}

}  // namespace strata::keras
