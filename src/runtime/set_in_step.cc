#include "runtime/set_in_step.h"

#include <ATen/core/grad_mode.h>

#include "graph/host_call.h"
#include "graph/remote/step_runner.h"
#include "strata/core/error.h"

namespace strata::detail {

void set_in_step(VariableState& variable, const ReplicaContext& replica, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const at::Tensor& own = variable.replicas()[static_cast<size_t>(replica.local_replica())];
  if (graph::records_for_compiler()) {
    own.detach().copy_(value);
    variable.record_version(replica.local_replica());
    return;
  }
  // Replicas of one server may have one copy.
  graph::call_host("strata::set_variable", {own.detach(), value.contiguous()}, {},
                   [](const std::vector<at::Tensor>&) -> std::vector<at::Tensor> {
                     throw Error(ErrorCode::kInternal,
                                 "[variable] a step that was recorded for servers ran here");
                   },
                   {0});
}

}  // namespace strata::detail
