#pragma once

#include <memory>
#include <vector>

#include "graph/remote/step_runner.h"
#include "strategies/tpu/tpu_runner.h"

namespace strata::tpu {

/// Runs a function with `jit_compile`: compiled for one device of the plugin's, with what it writes copied
/// back behind each run, so that the program's tensors are up to date.
class JitRunner final : public graph::StepRunner {
 public:
  explicit JitRunner(pjrt::Client client);

  bool takes_apart() const override { return true; }
  std::vector<at::Tensor> run_step(const std::shared_ptr<const graph::Trace>& trace,
                                   const std::vector<at::Tensor>& inputs) override;

 private:
  TpuRunner runner_;
};

}  // namespace strata::tpu

/// Forces the linker to keep this object file, which registers the compiler when it is loaded.
extern "C" STRATA_API const bool strata_jit_compiler;
