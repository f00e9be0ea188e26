#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/tracer.h"

namespace strata::graph::stablehlo {

/// Traces a step for a compiler: as operators of libtorch, strata's own ones taken apart. Its variables must
/// exist, such as momentum buffers, so a step runs once as it is written before.
/// @throws Error  as Tracer::trace.
std::shared_ptr<const Trace> trace_to_compile(const std::string& name,
                                              const std::vector<at::Tensor>& inputs,
                                              const Tracer::Step& step);

}  // namespace strata::graph::stablehlo
