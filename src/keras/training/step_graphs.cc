#include "keras/training/step_graphs.h"

#include <any>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "keras/call_context.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/graph/function.h"

namespace strata::keras::detail {
namespace {

constexpr std::array<const char*, 3> kStepNames = {"train_step", "test_step", "predict_step"};

/// Recording may make a step's calls so much slower, until replays have made up for it.
constexpr double kShareOfRecording = 0.04;

/// Whether every replica has variables of its own. With parameter servers and central storage a step
/// fetches them, and graphs have no words for that.
bool may_record(const ReplicaGroup& group) {
  const VariablePlacement& placement = group.placement();
  return placement.store() == nullptr && placement.has_copy_per_replica();
}

}  // namespace

struct StepGraphs::Functions {
  Functions(const ModelImpl& model, double share, bool jit_compile)
      : each{make(model, StepKind::kTrain, share, jit_compile),
             make(model, StepKind::kTest, share, jit_compile),
             make(model, StepKind::kPredict, share, jit_compile)} {}

  static graph::FunctionCore make(const ModelImpl& model, StepKind kind, double share,
                                  bool jit_compile) {
    const char* const step = kStepNames[static_cast<size_t>(kind)];
    return graph::FunctionCore(
        {.name = step, .jit_compile = jit_compile},
        {.share = share, .refused = [&model, step](const std::string& reason) {
           STRATA_LOG(kWarning) << "[keras] Model '" << model.name() << "': " << step
                                << " is not run as a graph but as it is written, with the same "
                                   "results: "
                                << reason
                                << ". compile with run_eagerly = true to leave out this line";
         }});
  }

  std::array<graph::FunctionCore, 3> each;
};

StepGraphs::StepGraphs(const ModelImpl& model, bool run_eagerly, bool jit_compile)
    : model_(model), run_eagerly_(run_eagerly), jit_compile_(jit_compile && !run_eagerly) {}
StepGraphs::~StepGraphs() = default;

/// Without a compiler, too: files of models that were made elsewhere may ask for one.
std::unique_ptr<StepGraphs::Functions> StepGraphs::make_functions(double share) {
  try {
    return std::make_unique<Functions>(model_, share, jit_compile_);
  } catch (const Error& error) {
    if (!jit_compile_) throw;
    jit_compile_ = false;
    STRATA_LOG(kWarning) << "[keras] Model '" << model_.name()
                         << "': compile got jit_compile=true, which has no effect: "
                         << error.what();
  }
  return std::make_unique<Functions>(model_, share, jit_compile_);
}

void StepGraphs::prepare() {
  const ReplicaGroup& group = model_.strategy().group();
  STRATA_CHECK(!run_eagerly_ || !group.options().functions_only, kUnimplemented, "[keras] Model '",
               model_.name(), "': got run_eagerly, and the replicas of ", group.name(),
               " run graphs alone; leave it false");
  if (run_eagerly_ || !may_record(group)) return;
  if (jit_compile_ && !group.all_cpu()) {
    jit_compile_ = false;
    STRATA_LOG(kWarning) << "[keras] Model '" << model_.name()
                         << "': compile got jit_compile=true, which has no effect on the GPUs of "
                         << group.name() << ": graphs are compiled for CPUs, and replayed there";
  }
  if (jit_compile_ && group.num_replicas() > 1) {
    jit_compile_ = false;
    STRATA_LOG(kWarning) << "[keras] Model '" << model_.name()
                         << "': compile got jit_compile=true, which has no effect with "
                         << group.num_replicas() << " replicas of " << group.name()
                         << ": graphs are replayed. TPUStrategy compiles for several";
  }
  jit_compile_ =
      jit_compile_ && !group.options().functions_only;  // where steps are compiled anyway
  if (!functions_) functions_ = make_functions(kShareOfRecording);
  for (graph::FunctionCore& each : functions_->each) each.prepare_to_record();
}

Tensors StepGraphs::call(StepKind kind, const data::Example& part, const Step& step) {
  // A trace of what layers do when is one of their code.
  if (!functions_ || call_context().trace != nullptr) return step(part);
  const graph::Leaves leaves{.tensors = part.fields, .rest = {}};
  const auto flat = [&step](const std::vector<at::Tensor>& fields,
                            graph::FunctionCore::Structured& /*structure*/) {
    return step(data::Example(fields));
  };
  graph::FunctionCore::Result result;
  functions_->each[static_cast<size_t>(kind)].call(leaves, flat, result);
  return std::move(result.tensors);
}

void StepGraphs::forget() {
  if (!functions_) return;
  for (graph::FunctionCore& each : functions_->each) each.forget();
}

void StepGraphs::record_at_once() {
  if (run_eagerly_ || !may_record(model_.strategy().group())) return;
  functions_ = make_functions(std::numeric_limits<double>::infinity());
}

int64_t StepGraphs::tracing_count() const {
  int64_t count = 0;
  if (!functions_) return count;
  for (const graph::FunctionCore& each : functions_->each) count += each.tracing_count();
  return count;
}

}  // namespace strata::keras::detail
