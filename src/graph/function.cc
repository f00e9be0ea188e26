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
#include "graph/relaxed_sizes.h"
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
  Entry(const Leaves& arguments, uint64_t where, std::shared_ptr<RelaxedSizes> one_of)
      : signature(arguments), place(where), relaxed(std::move(one_of)) {}

  const Signature signature;
  const uint64_t place;
  const std::shared_ptr<RelaxedSizes> relaxed;  // whose sizes it is one of; null: each has a graph
  std::atomic<bool> instantiated = false;       // from the graph for all of them
  Mutex mutex;
  int recordings STRATA_GUARDED_BY(mutex) = 0;
  int64_t calls STRATA_GUARDED_BY(mutex) = 0;   // as the function is written
  double seconds STRATA_GUARDED_BY(mutex) = 0;  // that they took
  bool observed STRATA_GUARDED_BY(mutex) = false;
  std::shared_ptr<const FunctionCore::Structured> structure STRATA_GUARDED_BY(mutex);
  Layouts layouts STRATA_GUARDED_BY(mutex);
  std::vector<at::Tensor> leaves STRATA_GUARDED_BY(mutex);  // whose gradients it changes
  std::unique_ptr<Executor> executor STRATA_GUARDED_BY(mutex);
  std::shared_ptr<const Trace> trace STRATA_GUARDED_BY(mutex);
};

}  // namespace

struct FunctionCore::Impl {
  std::shared_ptr<Entry> find(const Leaves& arguments);
  std::shared_ptr<Entry> entry_of(const Leaves& arguments,
                                  const std::shared_ptr<RelaxedSizes>& one_of = nullptr);
  void insert(std::shared_ptr<Entry> entry) STRATA_REQUIRES(mutex);
  void warn_of_many(const Entry& entry) STRATA_REQUIRES(mutex);
  std::shared_ptr<RelaxedSizes> relaxed_of(const Leaves& arguments);
  std::shared_ptr<Entry> instantiated(const std::shared_ptr<RelaxedSizes>& relaxed,
                                      const Leaves& arguments);
  void learn(RelaxedSizes& relaxed, const Leaves& arguments, const Step& step, Layouts&& seen);
  bool is_due(const Entry& entry) STRATA_REQUIRES(entry.mutex);
  Trace trace(const std::vector<at::Tensor>& inputs, const Step& step, Layouts& layouts,
              const std::vector<at::Tensor>& leaves,
              std::shared_ptr<const Structured>& structure) const;
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
  struct Relaxed {
    uint64_t place;
    std::shared_ptr<RelaxedSizes> sizes;
  };
  std::list<Relaxed> relaxed STRATA_GUARDED_BY(mutex);  // the last called first
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

/// Null: the signature is new.
std::shared_ptr<Entry> FunctionCore::Impl::find(const Leaves& arguments) {
  const MutexLock lock(mutex);
  for (auto each = entries.begin(); each != entries.end(); ++each) {
    if (!(*each)->signature.fits(arguments)) continue;
    entries.splice(entries.begin(), entries, each);
    return entries.front();
  }
  return nullptr;
}

std::shared_ptr<Entry> FunctionCore::Impl::entry_of(const Leaves& arguments,
                                                    const std::shared_ptr<RelaxedSizes>& one_of) {
  if (auto known = find(arguments)) return known;
  auto made = std::make_shared<Entry>(arguments, place(), one_of);
  const MutexLock lock(mutex);
  // With a finite share, many signatures cost no more than one.
  if (std::isinf(policy.share)) warn_of_many(*made);
  insert(made);
  return made;
}

void FunctionCore::Impl::warn_of_many(const Entry& entry) {
  size_t here = 0;
  const Entry* last = nullptr;
  for (const std::shared_ptr<Entry>& each : entries) {
    if (each->place != entry.place || each->instantiated) continue;
    if (last == nullptr) last = each.get();
    ++here;
  }
  if (here < kManyGraphs) return;
  STRATA_LOG(kWarning)
      << "[function] " << options.name << " has " << here << " graphs and needs another one, since "
      << entry.signature.difference_from(last->signature)
      << "; pad or drop a last batch that is smaller, and pass numbers that change "
         "as tensors";
}

void FunctionCore::Impl::insert(std::shared_ptr<Entry> entry) {
  size_t here = 0;
  auto oldest = entries.end();
  for (auto each = entries.begin(); each != entries.end(); ++each) {
    if ((*each)->place != entry->place) continue;
    oldest = each;
    ++here;
  }
  if (here >= options.max_graphs) entries.erase(oldest);
  entries.push_front(std::move(entry));
}

/// For a call whose signature is new. Those of the oldest are dropped, as graphs are.
std::shared_ptr<RelaxedSizes> FunctionCore::Impl::relaxed_of(const Leaves& arguments) {
  const MutexLock lock(mutex);
  size_t here = 0;
  auto oldest = relaxed.end();
  for (auto each = relaxed.begin(); each != relaxed.end(); ++each) {
    if (each->place != place()) continue;
    if (each->sizes->fits(arguments)) {
      relaxed.splice(relaxed.begin(), relaxed, each);
      return relaxed.front().sizes;
    }
    oldest = each;
    ++here;
  }
  if (here >= options.max_graphs) relaxed.erase(oldest);
  relaxed.push_front({place(), std::make_shared<RelaxedSizes>(options.name, arguments)});
  return relaxed.front().sizes;
}

/// Returns the relaxed graph instantiated for the sizes of this call, without running the function, or
/// null if these sizes have to run as written.
std::shared_ptr<Entry> FunctionCore::Impl::instantiated(
    const std::shared_ptr<RelaxedSizes>& relaxed, const Leaves& arguments) {
  auto instance = relaxed->instantiate(arguments);
  if (!instance) return nullptr;
  auto made = std::make_shared<Entry>(arguments, place(), relaxed);
  {
    const MutexLock lock(made->mutex);
    made->instantiated = true;
    made->recordings = kRecordings;
    made->calls = 1;
    made->observed = true;
    made->structure = std::move(instance->structure);
    made->trace = std::move(instance->trace);
    made->executor = std::make_unique<Executor>(made->trace);
  }
  const MutexLock lock(mutex);
  for (const std::shared_ptr<Entry>& each : entries) {  // another thread's
    if (each->signature.fits(arguments)) return each;
  }
  insert(made);
  return made;
}

/// After a call with new sizes, which ran as it is written.
void FunctionCore::Impl::learn(RelaxedSizes& relaxed, const Leaves& arguments, const Step& step,
                               Layouts&& seen) {
  const auto record = [&](const std::vector<at::Tensor>& inputs, Layouts& layouts,
                          const std::vector<at::Tensor>& leaves) {
    RelaxedSizes::Recorded recorded;
    recorded.trace = trace(inputs, step, layouts, leaves, recorded.structure);
    return recorded;
  };
  if (!relaxed.learn(arguments, std::move(seen), record)) return;
  ++tracings;
  // The graph of the first sizes is one more of them now.
  const MutexLock lock(mutex);
  std::erase_if(entries, [&](const std::shared_ptr<Entry>& entry) {
    return entry->relaxed.get() == &relaxed;
  });
}

Trace FunctionCore::Impl::trace(const std::vector<at::Tensor>& inputs, const Step& step,
                                Layouts& layouts, const std::vector<at::Tensor>& leaves,
                                std::shared_ptr<const Structured>& structure) const {
  const auto flat = [&](const std::vector<at::Tensor>& tensors) {
    auto made = std::make_shared<Structured>();
    std::vector<at::Tensor> results = step(tensors, *made);
    structure = std::move(made);
    return results;
  };
  const bool others = policy.refused != nullptr;  // else it would be an error of a run
  return Tracer::trace(options.name, inputs, flat, layouts, leaves, others);
}

void FunctionCore::Impl::record(Entry& entry, const Leaves& arguments, const Step& step) {
  std::shared_ptr<const Structured> structure;
  if (entry.recordings == 0) {
    for (const GradientEffect& effect :
         trace(arguments.tensors, step, entry.layouts, {}, structure).effects) {
      entry.leaves.push_back(effect.leaf);
    }
  }
  auto made = std::make_shared<Trace>(
      trace(arguments.tensors, step, entry.layouts, entry.leaves, structure));
  entry.structure = std::move(structure);
  STRATA_CHECK(!policy.refused || !made->leaves_tensors, kFailedPrecondition, "[function] ",
               options.name,
               ": the step keeps a tensor of its own for later (in a member, in a list), which "
               "replays would not renew; keep it in a Variable, or run this function eagerly");
  remove_dead(*made);
  if (entry.recordings > 0) {
    const auto changed = difference(entry.trace->graph, made->graph);
    STRATA_CHECK(
        !changed, kFailedPrecondition, "[function] ", options.name,
        ": the step is not the same each time, and replays would repeat one of them: ", *changed,
        "; keep what changes in a tensor or in an object of strata (an optimizer, a metric), "
        "pass it as an argument, or run this function eagerly");
  } else {
    entry.executor = std::make_unique<Executor>(made);
    entry.trace = std::move(made);
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
    auto structure = std::make_shared<Structured>();
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
  std::shared_ptr<Entry> entry = impl_->find(arguments);
  if (!entry && impl_->options.reduce_retracing && std::isinf(impl_->policy.share)) {
    const std::shared_ptr<RelaxedSizes> relaxed = impl_->relaxed_of(arguments);
    entry = impl_->instantiated(relaxed, arguments);
    if (!entry && !relaxed->is_first(arguments)) {
      if (!relaxed->wants(arguments)) return run();
      Layouts seen;
      {
        const ObserveLayoutsGuard observed(seen);
        run();
      }
      return impl_->learn(*relaxed, arguments, step, std::move(seen));
    }
    if (!entry) entry = impl_->entry_of(arguments, relaxed);
  }
  if (!entry) entry = impl_->entry_of(arguments);
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
  std::optional<MutexLock> turn;  // sizes of one graph share its host functions
  if (entry->relaxed) turn.emplace(entry->relaxed->turn());
  entry->executor->run(arguments.tensors, result.tensors);
  result.structure = entry->structure;
}

void FunctionCore::forget() {
  const MutexLock lock(impl_->mutex);
  impl_->entries.clear();
  impl_->relaxed.clear();
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
