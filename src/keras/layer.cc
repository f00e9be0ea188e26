#include "strata/keras/layer.h"

#include "keras/call_context.h"
#include "keras/call_options.h"
#include "keras/graph/node.h"
#include "keras/input_dtypes.h"
#include "strata/keras/layer_impl.h"

namespace strata::keras {
namespace {

template <typename T>
T only_one(std::vector<T> outputs, const Layer& layer) {
  STRATA_CHECK(outputs.size() == 1, kInvalidArgument, "[keras] layer '", layer.name(), "' has ",
               outputs.size(), " outputs; use call(), which gives them all");
  return std::move(outputs[0]);
}

}  // namespace

Layer::Layer(std::shared_ptr<LayerImpl> impl) : impl_(std::move(impl)) {
  impl_->name();  // names count in the order in which layers were made
}

std::vector<SymbolicTensor> Layer::call(const std::vector<SymbolicTensor>& xs, Json options) const {
  std::vector<Shape> shapes;
  std::vector<at::ScalarType> dtypes;
  for (const SymbolicTensor& x : xs) {
    shapes.push_back(x.shape());
    dtypes.push_back(x.dtype());
  }
  const size_t num_masks = detail::count_masks(options);
  const std::vector<Shape> values(shapes.begin(),
                                  shapes.end() - static_cast<std::ptrdiff_t>(num_masks));
  impl_->ensure_built(values, options);
  impl_->check_inputs(values);
  dtypes.resize(values.size());
  if (auto* takes = dynamic_cast<detail::TakesInputDtypes*>(impl_.get())) {
    takes->note_input_dtypes(dtypes);
  }
  const auto node =
      std::make_shared<detail::Node>(detail::Node{.layer = *this,
                                                  .inputs = xs,
                                                  .options = options,
                                                  .shapes = impl_->output_shapes(shapes, options),
                                                  .dtypes = impl_->output_dtypes(dtypes)});
  node->dtypes.resize(node->shapes.size(), node->dtypes.back());
  std::vector<SymbolicTensor> outputs;
  for (size_t i = 0; i < node->shapes.size(); ++i) outputs.emplace_back(node, i);
  return outputs;
}

SymbolicTensor Layer::operator()(const std::vector<SymbolicTensor>& xs) const {
  return only_one(call(xs), *this);
}
SymbolicTensor Layer::operator()(const SymbolicTensor& x) const { return (*this)(std::vector{x}); }

Tensors Layer::call(const Tensors& xs, const Call& call) const { return (*impl_)(xs, call).values; }

at::Tensor Layer::operator()(const Tensors& xs) const {
  return only_one(call(xs, {.training = detail::training_by_default()}), *this);
}
at::Tensor Layer::operator()(const at::Tensor& x) const { return (*this)(Tensors{x}); }

Tensors Layer::losses() const { return impl_->losses(); }
Tensors Layer::get_weights() const { return impl_->get_weights(); }
void Layer::set_weights(const Tensors& values) const { impl_->set_weights(values); }

const std::string& Layer::name() const { return impl_->name(); }

}  // namespace strata::keras
