#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "graph/tracer.h"
#include "strata/core/export.h"

namespace strata::graph {

/// What runs a function's steps in place of this process's executor: on servers, for a standalone
/// client, or by a compiler on its devices.
class STRATA_API StepRunner {
 public:
  virtual ~StepRunner() = default;

  /// Whether it takes libtorch's operators alone: strata's are taken apart when a step is recorded.
  virtual bool takes_apart() const { return false; }

  /// @param trace  The step of the calling replica; the same object for the same step.
  /// @return The outputs, detached.
  virtual std::vector<at::Tensor> run_step(const std::shared_ptr<const Trace>& trace,
                                           const std::vector<at::Tensor>& inputs) = 0;
};

/// Gives the functions that this thread calls at its present `place()` to `runner`; null: they run
/// here. It ends with the place: the next one that the thread takes has no runner.
STRATA_API void set_step_runner(StepRunner* runner);

/// That of this thread at its present place; null: none.
STRATA_API StepRunner* step_runner();

/// Gives the functions that this thread calls to `runner` while it lives.
class STRATA_API StepRunnerGuard {
 public:
  explicit StepRunnerGuard(StepRunner& runner);
  ~StepRunnerGuard();
  StepRunnerGuard(const StepRunnerGuard&) = delete;
  StepRunnerGuard& operator=(const StepRunnerGuard&) = delete;

 private:
  StepRunner* before_;
};

/// Makes what compiles steps and runs them on this machine, for `jit_compile`. The library strata::tpu sets
/// it; without it programs have no compiler.
using MakeCompiler = std::shared_ptr<StepRunner> (*)();
STRATA_API void set_compiler(MakeCompiler make);
/// @throws Error  kUnimplemented: this program has none. kNotFound: no plugin.
STRATA_API std::shared_ptr<StepRunner> make_compiler();

/// Whether what is recorded now runs elsewhere: what has a form of operators and one of the host's
/// functions takes the former.
STRATA_API bool records_for_elsewhere();
/// The same for one that takes steps apart, for a compiler.
STRATA_API bool records_for_compiler();

}  // namespace strata::graph
