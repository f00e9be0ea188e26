#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace strata::kernels {

/// An operator of the dispatcher, "strata::attention". Keep it in a static: the search takes a lock.
/// @param Signature  Of the operator's kernel: `decltype(attention_cpu)`.
/// @throws c10::Error  if no operator has this name and signature.
template <typename Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

}  // namespace strata::kernels
