#include "strategies/tpu/jit_runner.h"

#include <utility>

#include "strata/core/error.h"
#include "strata/strategies/tpu_strategy.h"
#include "strategies/default_seed.h"

namespace strata::tpu {
namespace {

constexpr const char* kName = "jit_compile";

/// One connection for all functions of the program.
const pjrt::Client& client_of_program() {
  static const std::shared_ptr<const pjrt::Client> client = TPUClusterResolver().client();
  return *client;
}

std::shared_ptr<graph::StepRunner> make() {
  return std::make_shared<JitRunner>(client_of_program());
}

}  // namespace

JitRunner::JitRunner(pjrt::Client client)
    : runner_(std::move(client),
              TpuRunner::Settings{.name = kName, .seed = strata::detail::default_seed()}) {}

std::vector<at::Tensor> JitRunner::run_step(const std::shared_ptr<const graph::Trace>& trace,
                                            const std::vector<at::Tensor>& inputs) {
  const ReplicaContext* const replica = get_replica_context();
  STRATA_CHECK(replica != nullptr, kFailedPrecondition, "[", kName, "] ", trace->graph.name,
               ": called outside of `run`, in a strategy's scope; call it in `run`");
  STRATA_CHECK(
      replica->num_replicas_in_sync() == 1, kUnimplemented, "[", kName, "] ", trace->graph.name,
      ": got ", replica->num_replicas_in_sync(),
      " replicas; expected one: TPUStrategy compiles for several, also for XLA's CPU devices");
  std::vector<at::Tensor> outputs = runner_.run_step(trace, inputs);
  runner_.finish();
  return outputs;
}

}  // namespace strata::tpu

const bool strata_jit_compiler = [] {
  strata::graph::set_compiler(strata::tpu::make);
  return true;
}();
