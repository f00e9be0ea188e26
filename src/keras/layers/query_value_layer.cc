#include "keras/call_context.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/attention.h"

namespace strata::layers {
namespace {

using keras::Tensors;

template <typename T>
std::pair<std::vector<T>, Json> flatten(const T& query, const T& value,
                                        const AttentionCall<T>& call, bool with_scores) {
  std::vector<T> inputs{query, value};
  Json options = Json::object();
  const auto add = [&](const char* name, const std::optional<T>& tensor) {
    if (!tensor) return;
    Json place = Json::object();
    place.set("tensor", static_cast<int64_t>(inputs.size()));
    options.set(name, std::move(place));
    inputs.push_back(*tensor);
  };
  add("key", call.key);
  add("attention_mask", call.attention_mask);
  if (call.use_causal_mask) options.set("use_causal_mask", true);
  if (with_scores) options.set("return_attention_scores", true);
  return {std::move(inputs), std::move(options)};
}

}  // namespace

keras::SymbolicTensor QueryValueLayer::operator()(
    const keras::SymbolicTensor& query, const keras::SymbolicTensor& value,
    const AttentionCall<keras::SymbolicTensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, false);
  return call(inputs, std::move(call_options)).at(0);
}
at::Tensor QueryValueLayer::operator()(const at::Tensor& query, const at::Tensor& value,
                                       const AttentionCall<at::Tensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, false);
  return call(inputs, {.training = keras::detail::training_by_default(),
                       .options = std::move(call_options)})
      .at(0);
}
std::pair<keras::SymbolicTensor, keras::SymbolicTensor> QueryValueLayer::with_scores(
    const keras::SymbolicTensor& query, const keras::SymbolicTensor& value,
    const AttentionCall<keras::SymbolicTensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, true);
  const auto outputs = call(inputs, std::move(call_options));
  return {outputs.at(0), outputs.at(1)};
}
std::pair<at::Tensor, at::Tensor> QueryValueLayer::with_scores(
    const at::Tensor& query, const at::Tensor& value,
    const AttentionCall<at::Tensor>& options) const {
  auto [inputs, call_options] = flatten(query, value, options, true);
  const Tensors outputs = call(inputs, {.training = keras::detail::training_by_default(),
                                        .options = std::move(call_options)});
  return {outputs.at(0), outputs.at(1)};
}

}  // namespace strata::layers
