#include "graph/remote/step_runner.h"

#include <atomic>

#include "graph/host_call.h"
#include "strata/core/error.h"

namespace strata::graph {
namespace {

struct PlacedRunner {
  StepRunner* runner = nullptr;
  uint64_t place = 0;
};

thread_local PlacedRunner this_threads_runner;

std::atomic<MakeCompiler> compiler = nullptr;

}  // namespace

void set_step_runner(StepRunner* runner) { this_threads_runner = {runner, place()}; }

StepRunner* step_runner() {
  return this_threads_runner.place == place() ? this_threads_runner.runner : nullptr;
}

StepRunnerGuard::StepRunnerGuard(StepRunner& runner) : before_(step_runner()) {
  set_step_runner(&runner);
}
StepRunnerGuard::~StepRunnerGuard() { set_step_runner(before_); }

void set_compiler(MakeCompiler make) { compiler = make; }

std::shared_ptr<StepRunner> make_compiler() {
  const MakeCompiler make = compiler;
  STRATA_CHECK(make != nullptr, kUnimplemented,
               "[graph] got jit_compile in a program without a compiler; link strata::tpu "
               "(strata::strata has it), or leave jit_compile false: functions then replay their "
               "operators");
  return make();
}

bool records_for_elsewhere() { return tracing() && step_runner() != nullptr; }
bool records_for_compiler() { return records_for_elsewhere() && step_runner()->takes_apart(); }

}  // namespace strata::graph
