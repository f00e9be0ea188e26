// The graphs of a function: which one a call takes, and when one is made.
#include "strata/graph/function.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <list>
#include <optional>
#include <utility>

#include "core/mutex.h"
#include "graph/executor.h"
#include "graph/host_call.h"
#include "graph/inference_mode.h"
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

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

/// What recording will take, of a step that takes `call_seconds`: it computes nothing, but runs the
/// program's code three times, slowly. Measured: 2.5 to 6 calls of steps of 0.3 to 2 ms.
double expected_recording_seconds(double call_seconds) {
  constexpr double kRegistration = 0.03;
  const double recording = std::min(8 * call_seconds, 0.006 + 2 * call_seconds);
  return recording + (has_trace_kernels() ? 0 : kRegistration);
}

std::string reason_of(const std::exception& error) {
  const auto* const from_libtorch = dynamic_cast<const c10::Error*>(&error);
  return from_libtorch != nullptr ? from_libtorch->what_without_backtrace() : error.what();
}

std::vector<at::Tensor> detached(std::vector<at::Tensor> tensors) {
  for (at::Tensor& tensor : tensors) {
    if (tensor.defined()) tensor = tensor.detach();
  }
  return tensors;
}

/// A thread's that are not in use.
std::vector<std::unique_ptr<FunctionCore::Scratch>>& free_scratch() {
  thread_local std::vector<std::unique_ptr<FunctionCore::Scratch>> free;
  return free;
}

/// A signature on one replica.
struct Entry {
  Entry(const Leaves& arguments, uint64_t where) : signature(arguments), place(where) {}

  const Signature signature;
  const uint64_t place;
  Mutex mutex;
  int recordings STRATA_GUARDED_BY(mutex) = 0;
  int64_t calls STRATA_GUARDED_BY(mutex) = 0;   // as the function is written
  double seconds STRATA_GUARDED_BY(mutex) = 0;  // that they took
  bool observed STRATA_GUARDED_BY(mutex) = false;
  std::shared_ptr<const std::any> structure STRATA_GUARDED_BY(mutex);
  Layouts layouts STRATA_GUARDED_BY(mutex);
  std::vector<at::Tensor> leaves STRATA_GUARDED_BY(mutex);  // whose gradients it changes
  std::unique_ptr<Executor> executor STRATA_GUARDED_BY(mutex);
  std::shared_ptr<const Trace> trace STRATA_GUARDED_BY(mutex);
};

}  // namespace

struct FunctionCore::Impl {
  std::shared_ptr<Entry> entry_of(const Leaves& arguments);
  bool differs_in_rows(const Leaves& arguments) const;
  bool is_due(const Entry& entry) STRATA_REQUIRES(entry.mutex);
  void record(Entry& entry, const Leaves& arguments, const Step& step) STRATA_REQUIRES(entry.mutex);
  bool try_to_record(Entry& entry, const Leaves& arguments, const Step& step)
      STRATA_REQUIRES(entry.mutex);
  void give_up(const std::string& reason);
  void call_elsewhere(StepRunner& runner, const Leaves& arguments, const Step& step,
                      Result& result);
  bool call_compiled(const Leaves& arguments, const Step& step, Result& result);

  FunctionOptions options;
  std::shared_ptr<StepRunner> compiler;  // null: graphs are replayed
  RecordingPolicy policy;
  std::atomic<int64_t> tracings = 0;
  std::atomic<bool> wants_to_record = false;  // and no kernels are registered
  std::atomic<bool> gave_up = false;
  mutable Mutex mutex;
  std::list<std::shared_ptr<Entry>> entries STRATA_GUARDED_BY(mutex);  // the last called first
};

FunctionCore::FunctionCore(FunctionOptions options, RecordingPolicy policy)
    : impl_(std::make_unique<Impl>()) {
  STRATA_CHECK(options.max_graphs > 0, kInvalidArgument, "[function] ", options.name,
               ": got max_graphs 0; expected 1 or more");
  if (options.jit_compile && !options.run_eagerly) impl_->compiler = make_compiler();
  const bool at_once = std::isinf(policy.share) || impl_->compiler;
  if (!options.run_eagerly && at_once) register_trace_kernels();  // before threads are at work
  impl_->options = std::move(options);
  impl_->policy = std::move(policy);
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
  // With a finite share, many signatures cost no more than one.
  if (here >= kManyGraphs && std::isinf(policy.share)) {
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

/// From a signature that was called before, and from all in nothing else.
bool FunctionCore::Impl::differs_in_rows(const Leaves& arguments) const {
  const MutexLock lock(mutex);
  bool known = false;
  for (const std::shared_ptr<Entry>& entry : entries) {
    if (entry->place != place()) continue;
    if (entry->signature.fits(arguments)) return false;
    known = known || entry->signature.fits_rows(arguments);
  }
  return known;
}

void FunctionCore::Impl::record(Entry& entry, const Leaves& arguments, const Step& step) {
  std::shared_ptr<std::any> structure;
  const auto flat = [&](const std::vector<at::Tensor>& tensors) {
    structure = std::make_shared<std::any>();
    return step(tensors, *structure);
  };
  const bool others = policy.refused != nullptr;  // else it would be an error of a run
  if (entry.recordings == 0) {
    for (const GradientEffect& effect :
         Tracer::trace(options.name, arguments.tensors, flat, entry.layouts, {}, others).effects) {
      entry.leaves.push_back(effect.leaf);
    }
  }
  auto trace = std::make_shared<Trace>(
      Tracer::trace(options.name, arguments.tensors, flat, entry.layouts, entry.leaves, others));
  entry.structure = std::move(structure);
  STRATA_CHECK(!policy.refused || !trace->leaves_tensors, kFailedPrecondition, "[function] ",
               options.name,
               ": the step keeps a tensor of its own for later (in a member, in a list), which "
               "replays would not renew; keep it in a Variable, or run this function eagerly");
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
void FunctionCore::Impl::call_elsewhere(StepRunner& runner, const Leaves& arguments,
                                        const Step& step, Result& result) {
  STRATA_CHECK(!options.run_eagerly, kUnimplemented, "[function] ", options.name,
               ": got run_eagerly in a strategy whose replicas run graphs alone (client = "
               "\"standalone\", TPUStrategy); leave it false");
  const std::shared_ptr<Entry> entry = entry_of(arguments);
  MutexLock lock(entry->mutex);
  if (entry->recordings < kRecordings) {
    std::optional<InferenceModeGuard> of_libtorch;
    if (runner.takes_apart()) of_libtorch.emplace();
    record(*entry, arguments, step);
  }
  const std::shared_ptr<const Trace> trace = entry->trace;
  result.structure = entry->structure;
  lock.unlock();
  result.tensors = runner.run_step(trace, arguments.tensors);
}

/// @return false: there is no program for the step, which is run as it is written from now on.
bool FunctionCore::Impl::call_compiled(const Leaves& arguments, const Step& step, Result& result) {
  const StepRunnerGuard guard(*compiler);
  try {
    call_elsewhere(*compiler, arguments, step, result);
    return true;
  } catch (const Error& error) {  // before anything has run
    const bool no_program =
        error.code() == ErrorCode::kUnimplemented || error.code() == ErrorCode::kFailedPrecondition;
    if (!policy.refused || !no_program) throw;
    give_up(reason_of(error));
  }
  return false;
}

FunctionCore::ScratchLease::ScratchLease() {
  auto& free = free_scratch();
  if (free.empty()) {
    scratch_ = std::make_unique<Scratch>();
  } else {
    scratch_ = std::move(free.back());
    free.pop_back();
  }
}

FunctionCore::ScratchLease::~ScratchLease() {
  scratch_->arguments.tensors.clear();
  scratch_->arguments.rest.clear();
  scratch_->result.tensors.clear();
  scratch_->result.structure.reset();
  free_scratch().push_back(std::move(scratch_));
}

/// The first call never is: it makes variables, slots and the like.
bool FunctionCore::Impl::is_due(const Entry& entry) {
  if (entry.calls == 0) return false;
  if (entry.recordings > 0 || std::isinf(policy.share)) return true;
  const double one_call = entry.seconds / static_cast<double>(entry.calls);
  if (entry.seconds * policy.share < expected_recording_seconds(one_call)) return false;
  if (has_trace_kernels()) return true;
  wants_to_record = true;
  return false;
}

void FunctionCore::prepare_to_record() {
  if (impl_->wants_to_record.exchange(false)) register_trace_kernels();
}

bool FunctionCore::Impl::try_to_record(Entry& entry, const Leaves& arguments, const Step& step) {
  if (!policy.refused) {
    record(entry, arguments, step);
    return true;
  }
  try {
    record(entry, arguments, step);
    return true;
  } catch (const std::exception& error) {
    give_up(reason_of(error));
  }
  entry.executor.reset();
  entry.trace.reset();
  return false;
}

void FunctionCore::Impl::give_up(const std::string& reason) {
  if (!gave_up.exchange(true)) policy.refused(reason);
}

void FunctionCore::call(const Leaves& arguments, const Step& step, Result& result) {
  if (StepRunner* const runner = step_runner(); runner != nullptr && !tracing()) {
    return impl_->call_elsewhere(*runner, arguments, step, result);
  }
  const auto as_written = [&] {
    auto structure = std::make_shared<std::any>();
    result.tensors = step(arguments.tensors, *structure);
    result.structure = std::move(structure);
  };
  // Within another function its operators are part of that one's graph.
  if (impl_->options.run_eagerly || tracing()) return as_written();
  const auto run = [&] {
    as_written();
    result.tensors = detached(std::move(result.tensors));
  };
  if (impl_->gave_up) return run();
  if (impl_->compiler && impl_->call_compiled(arguments, step, result)) return;
  if (impl_->compiler) return run();
  if (impl_->options.reduce_retracing && impl_->differs_in_rows(arguments)) return run();
  const std::shared_ptr<Entry> entry = impl_->entry_of(arguments);
  MutexLock lock(entry->mutex);
  const bool due = !impl_->gave_up && impl_->is_due(*entry);
  // The last call before the recording, which takes the results' layouts from it.
  const bool observe = !entry->observed && (due || std::isinf(impl_->policy.share));
  if (!due || observe) {
    lock.unlock();  // it may call this function again
    const auto began = std::chrono::steady_clock::now();
    Layouts seen;
    {
      std::optional<ObserveLayoutsGuard> observed;
      if (observe) observed.emplace(seen);
      run();
    }
    const double took = seconds_since(began);
    lock.lock();
    ++entry->calls;
    entry->seconds += took;
    if (observe && !entry->observed) entry->layouts = std::move(seen);
    entry->observed = entry->observed || observe;
    return;
  }
  if (entry->recordings < kRecordings && !impl_->try_to_record(*entry, arguments, step)) {
    lock.unlock();
    return run();
  }
  entry->executor->run(arguments.tensors, result.tensors);
  result.structure = entry->structure;
}

void FunctionCore::forget() {
  const MutexLock lock(impl_->mutex);
  impl_->entries.clear();
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
