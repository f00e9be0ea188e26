#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace strata::kernels {

/// Nodes are held by shared_ptr up to libtorch 2.11, by intrusive_ptr later.
using NodePointer = decltype(torch::autograd::Edge::function);

template <typename N>
auto make_node() {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<N>();
  } else {
    return c10::make_intrusive<N>();
  }
}

/// One more reference to a node that is held already, for SavedVariable::unpack.
template <typename N>
NodePointer pointer_to(N& node) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>) {
    return node.shared_from_this();
  } else {
    return c10::intrusive_ptr<N>::unsafe_reclaim_from_nonowning(&node);
  }
}

/// Whether what is computed from these tensors has a history; undefined ones count for nothing.
template <typename... Inputs>
bool wants_graph(const Inputs&... inputs) {
  return at::GradMode::is_enabled() && ((inputs.defined() && inputs.requires_grad()) || ...);
}

}  // namespace strata::kernels
