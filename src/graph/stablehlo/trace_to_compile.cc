#include "graph/stablehlo/trace_to_compile.h"

#include "graph/inference_mode.h"
#include "graph/passes.h"

namespace strata::graph::stablehlo {

std::shared_ptr<const Trace> trace_to_compile(const std::string& name,
                                              const std::vector<at::Tensor>& inputs,
                                              const Tracer::Step& step) {
  const InferenceModeGuard of_libtorch;
  Layouts layouts;
  // The first trace finds the leaves whose gradients the step changes.
  std::vector<at::Tensor> leaves;
  for (const GradientEffect& effect : Tracer::trace(name, inputs, step, layouts).effects) {
    leaves.push_back(effect.leaf);
  }
  auto trace = std::make_shared<Trace>(Tracer::trace(name, inputs, step, layouts, leaves));
  remove_dead(*trace);
  return trace;
}

}  // namespace strata::graph::stablehlo
