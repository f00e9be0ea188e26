// The graphs of a function: which one a call takes, and when one is made.
#include "strata/graph/function.h"

#include <atomic>
#include <list>
#include <utility>

#include "core/mutex.h"
#include "graph/executor.h"
#include "graph/host_call.h"
#include "graph/passes.h"
#include "graph/remote/step_runner.h"
#include "graph/signature.h"
#include "graph/trace_key.h"
#include "graph/tracer.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::graph {
namespace {

/// More graphs on one replica than a program has on purpose: TensorFlow warns then, too.
constexpr size_t kManyGraphs = 5;

/// The second is compared with the first.
constexpr int kRecordings = 2;

std::vector<at::Tensor> detached(std::vector<at::Tensor> tensors) {
  for (at::Tensor& tensor : tensors) {
    if (tensor.defined()) tensor = tensor.detach();
  }
  return tensors;
}

/// A signature on one replica.
struct Entry {
  Entry(const Leaves& arguments, uint64_t where) : signature(arguments), place(where) {}

  const Signature signature;
  const uint64_t place;
  Mutex mutex;
  int recordings STRATA_GUARDED_BY(mutex) = 0;
  bool has_run STRATA_GUARDED_BY(mutex) = false;
  std::any structure STRATA_GUARDED_BY(mutex);
  Layouts layouts STRATA_GUARDED_BY(mutex);
  std::vector<at::Tensor> leaves STRATA_GUARDED_BY(mutex);  // whose gradients it changes
  std::unique_ptr<Executor> executor STRATA_GUARDED_BY(mutex);
  std::shared_ptr<const Trace> trace STRATA_GUARDED_BY(mutex);
};

}  // namespace

struct FunctionCore::Impl {
  std::shared_ptr<Entry> entry_of(const Leaves& arguments);
  void record(Entry& entry, const Leaves& arguments, const Step& step) STRATA_REQUIRES(entry.mutex);
  Result call_elsewhere(StepRunner& runner, const Leaves& arguments, const Step& step);

  FunctionOptions options;
  std::atomic<int64_t> tracings = 0;
  mutable Mutex mutex;
  std::list<std::shared_ptr<Entry>> entries STRATA_GUARDED_BY(mutex);  // the last called first
};

FunctionCore::FunctionCore(FunctionOptions options) : impl_(std::make_unique<Impl>()) {
  STRATA_CHECK(!options.jit_compile, kUnimplemented, "[function] ", options.name,
               ": got jit_compile, and this build has no executor that compiles graphs; leave it "
               "false: a function then replays its operators");
  STRATA_CHECK(options.max_graphs > 0, kInvalidArgument, "[function] ", options.name,
               ": got max_graphs 0; expected 1 or more");
  if (!options.run_eagerly) register_trace_kernels();  // before threads are at work
  impl_->options = std::move(options);
}

FunctionCore::~FunctionCore() = default;

std::shared_ptr<Entry> FunctionCore::Impl::entry_of(const Leaves& arguments) {
  const MutexLock lock(mutex);
  for (auto each = entries.begin(); each != entries.end(); ++each) {
    if (!(*each)->signature.fits(arguments)) continue;
    entries.splice(entries.begin(), entries, each);
    return entries.front();
  }
  auto made = std::make_shared<Entry>(arguments, place());
  size_t here = 0;
  const Entry* last = nullptr;
  auto oldest = entries.end();
  for (auto each = entries.begin(); each != entries.end(); ++each) {
    if ((*each)->place != made->place) continue;
    if (last == nullptr) last = each->get();
    oldest = each;
    ++here;
  }
  if (here >= kManyGraphs) {
    STRATA_LOG(kWarning)
        << "[function] " << options.name << " has " << here
        << " graphs and needs another one, since "
        << made->signature.difference_from(last->signature)
        << "; pad or drop a last batch that is smaller, and pass numbers that change as "
           "tensors";
  }
  if (here >= options.max_graphs) entries.erase(oldest);
  entries.push_front(made);
  return made;
}

void FunctionCore::Impl::record(Entry& entry, const Leaves& arguments, const Step& step) {
  const auto flat = [&](const std::vector<at::Tensor>& tensors) {
    return step(tensors, entry.structure);
  };
  if (entry.recordings == 0) {
    for (const GradientEffect& effect :
         Tracer::trace(options.name, arguments.tensors, flat, entry.layouts).effects) {
      entry.leaves.push_back(effect.leaf);
    }
  }
  auto trace = std::make_shared<Trace>(
      Tracer::trace(options.name, arguments.tensors, flat, entry.layouts, entry.leaves));
  remove_dead(*trace);
  if (entry.recordings > 0) {
    const auto changed = difference(entry.trace->graph, trace->graph);
    STRATA_CHECK(
        !changed, kFailedPrecondition, "[function] ", options.name,
        ": the step is not the same each time, and replays would repeat one of them: ", *changed,
        "; keep what changes in a tensor or in an object of strata (an optimizer, a metric), "
        "pass it as an argument, or run this function eagerly");
  } else {
    entry.executor = std::make_unique<Executor>(trace);
    entry.trace = std::move(trace);
    ++tracings;
  }
  ++entry.recordings;
}

/// On servers: it is recorded at once, since nothing of it runs here.
FunctionCore::Result FunctionCore::Impl::call_elsewhere(StepRunner& runner, const Leaves& arguments,
                                                        const Step& step) {
  STRATA_CHECK(!options.run_eagerly, kUnimplemented, "[function] ", options.name,
               ": got run_eagerly in a strategy with client = \"standalone\", whose servers run "
               "graphs alone; leave it false");
  const std::shared_ptr<Entry> entry = entry_of(arguments);
  MutexLock lock(entry->mutex);
  if (entry->recordings < kRecordings) record(*entry, arguments, step);
  const std::shared_ptr<const Trace> trace = entry->trace;
  Result result{.tensors = {}, .structure = entry->structure};
  lock.unlock();
  result.tensors = runner.run_step(trace, arguments.tensors);
  return result;
}

FunctionCore::Result FunctionCore::call(const Leaves& arguments, const Step& step) {
  if (StepRunner* const runner = step_runner(); runner != nullptr && !tracing()) {
    return impl_->call_elsewhere(*runner, arguments, step);
  }
  // Within another function its operators are part of that one's graph.
  if (impl_->options.run_eagerly || tracing()) {
    Result result;
    result.tensors = step(arguments.tensors, result.structure);
    return result;
  }
  const std::shared_ptr<Entry> entry = impl_->entry_of(arguments);
  MutexLock lock(entry->mutex);
  if (!entry->has_run) {
    lock.unlock();  // it may call this function again
    Result result;
    result.tensors = detached(step(arguments.tensors, result.structure));
    lock.lock();
    entry->has_run = true;
    return result;
  }
  if (entry->recordings < kRecordings) impl_->record(*entry, arguments, step);
  return {.tensors = entry->executor->run(arguments.tensors), .structure = entry->structure};
}

int64_t FunctionCore::tracing_count() const { return impl_->tracings; }

std::vector<std::shared_ptr<const Graph>> FunctionCore::graphs() const {
  std::vector<std::shared_ptr<const Graph>> result;
  const MutexLock lock(impl_->mutex);
  for (const std::shared_ptr<Entry>& entry : impl_->entries) {
    const MutexLock entry_lock(entry->mutex);
    if (entry->trace) result.emplace_back(entry->trace, &entry->trace->graph);
  }
  return result;
}

}  // namespace strata::graph
