#include "graph/remote/step_runner.h"

#include "graph/host_call.h"

namespace strata::graph {
namespace {

struct PlacedRunner {
  StepRunner* runner = nullptr;
  uint64_t place = 0;
};

thread_local PlacedRunner this_threads_runner;

}  // namespace

void set_step_runner(StepRunner* runner) { this_threads_runner = {runner, place()}; }

StepRunner* step_runner() {
  return this_threads_runner.place == place() ? this_threads_runner.runner : nullptr;
}

bool records_for_elsewhere() { return tracing() && step_runner() != nullptr; }
bool records_for_compiler() { return records_for_elsewhere() && step_runner()->takes_apart(); }

}  // namespace strata::graph
