#include "kernels/attention.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

#include "kernels/attention_operator.h"
#include "kernels/autograd_node.h"
#include "kernels/find_operator.h"
#include "kernels/optional_tensor.h"

namespace strata::kernels {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? query_mask,"
      " Tensor? key_mask, bool causal, int window, float scale, bool mean_of_unseen)"
      " -> (Tensor output, Tensor logsumexp)");
  library.def(
      "attention_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor output,"
      " Tensor logsumexp, Tensor? mask, Tensor? query_mask, Tensor? key_mask, bool causal,"
      " int window, float scale, bool mean_of_unseen) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("attention", attention_of_aten);
  library.impl("attention_backward", attention_backward_of_aten);
}

TORCH_LIBRARY_IMPL(strata, Meta, library) {
  library.impl("attention", attention_shapes);
  library.impl("attention_backward", attention_backward_shapes);
}

const auto& forward_operator() {
  static const auto found = find_operator<AttentionForward>("strata::attention");
  return found;
}

struct TiledAttentionBackward final : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& gradient = gradients[0];
    variable_list results(3);
    if (!gradient.defined()) return results;
    const at::Tensor output_value = output.unpack(pointer_to(*this));
    const auto compute = [&](AttentionBackward* backward) {
      std::tie(results[0], results[1], results[2]) =
          backward(gradient, query.unpack(), key.unpack(), value.unpack(), output_value, logsumexp,
                   if_defined(mask.unpack()), if_defined(query_mask.unpack()),
                   if_defined(key_mask.unpack()), causal, window, scale, mean_of_unseen);
    };
    // With a graph of the gradients they may be differentiated again.
    if (at::GradMode::is_enabled()) {
      compute(attention_backward_of_aten);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below;
      compute(call_attention_backward);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!task_should_compute_output(i)) results[i] = at::Tensor();
    }
    return results;
  }
  void release_variables() override {
    for (SavedVariable* each : {&query, &key, &value, &output, &mask, &query_mask, &key_mask}) {
      each->reset_data();
    }
    logsumexp.reset();
  }
  std::string name() const override { return "TiledAttentionBackward"; }

  SavedVariable query, key, value, output, mask, query_mask, key_mask;
  at::Tensor logsumexp;
  bool causal = false;
  int64_t window = 0;
  double scale = 1;
  bool mean_of_unseen = false;
};

std::tuple<at::Tensor, at::Tensor> attention_with_node(
    c10::DispatchKeySet keys, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const std::optional<at::Tensor>& mask,
    const std::optional<at::Tensor>& query_mask, const std::optional<at::Tensor>& key_mask,
    bool causal, int64_t window, double scale, bool mean_of_unseen) {
  const auto is_dual = [](const at::Tensor& tensor) { return tensor._fw_grad(0).defined(); };
  if (is_dual(query) || is_dual(key) || is_dual(value) || (mask && mask->requires_grad())) {
    return attention_of_aten(query, key, value, mask, query_mask, key_mask, causal, window, scale,
                             mean_of_unseen);
  }
  std::tuple<at::Tensor, at::Tensor> result;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    result =
        forward_operator().redispatch(keys & c10::after_autograd_keyset, query, key, value, mask,
                                      query_mask, key_mask, causal, window, scale, mean_of_unseen);
  }
  if (!wants_graph(query, key, value)) return result;
  const auto node = make_node<TiledAttentionBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(query, key, value));
  const auto saved = [](const std::optional<at::Tensor>& tensor) {
    return tensor ? SavedVariable(*tensor, /*is_output=*/false) : SavedVariable();
  };
  node->query = saved(query);
  node->key = saved(key);
  node->value = saved(value);
  node->mask = saved(mask);
  node->query_mask = saved(query_mask);
  node->key_mask = saved(key_mask);
  node->causal = causal;
  node->window = window;
  node->scale = scale;
  node->mean_of_unseen = mean_of_unseen;
  torch::autograd::set_history(std::get<0>(result), node);
  node->output = SavedVariable(std::get<0>(result), /*is_output=*/true);
  node->logsumexp = std::get<1>(result);
  return result;
}

TORCH_LIBRARY_IMPL(strata, Autograd, library) {
  library.impl("attention", TORCH_FN(attention_with_node));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> call_attention(const at::Tensor& query, const at::Tensor& key,
                                                  const at::Tensor& value,
                                                  const std::optional<at::Tensor>& mask,
                                                  const std::optional<at::Tensor>& query_mask,
                                                  const std::optional<at::Tensor>& key_mask,
                                                  bool causal, int64_t window, double scale,
                                                  bool mean_of_unseen) {
  return forward_operator().call(query, key, value, mask, query_mask, key_mask, causal, window,
                                 scale, mean_of_unseen);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> call_attention_backward(
    const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp,
    const std::optional<at::Tensor>& mask, const std::optional<at::Tensor>& query_mask,
    const std::optional<at::Tensor>& key_mask, bool causal, int64_t window, double scale,
    bool mean_of_unseen) {
  static const auto backward = find_operator<AttentionBackward>("strata::attention_backward");
  return backward.call(gradient, query, key, value, output, logsumexp, mask, query_mask, key_mask,
                       causal, window, scale, mean_of_unseen);
}

std::optional<at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const AttentionMask& mask,
                                    double scale, UnseeingQueries unseeing) {
  if (!attention_kernels_apply(query, key, value, mask)) return std::nullopt;
  return std::get<0>(call_attention(query, key, value, mask.scores, mask.queries, mask.keys,
                                    mask.causal, mask.window, scale,
                                    unseeing == UnseeingQueries::kMean));
}

}  // namespace strata::kernels
