#pragma once

#include <string_view>

namespace strata::detail {

/// Takes what a step does, or asks for, on the host that changes from call to call: writing a summary,
/// the number of steps so far. A recording of the step (graph/tracer.h) has no words for it.
using HostEffectHandler = void (*)(std::string_view what);

/// This thread's, while a step is recorded; else null.
inline HostEffectHandler& host_effect_handler() {
  static thread_local HostEffectHandler handler = nullptr;
  return handler;
}

/// @throws what a recording throws: it cannot go on.
inline void note_host_effect(std::string_view what) {
  if (const HostEffectHandler handler = host_effect_handler()) handler(what);
}

}  // namespace strata::detail
