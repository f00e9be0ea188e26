#include "strategies/tpu/tpu_runner.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "graph/stablehlo/transfers.h"
#include "strata/core/error.h"

namespace strata::tpu {
namespace {

using graph::kNoValue;
using graph::Value;
using graph::stablehlo::Parameter;

/// Whether one program is the step of all replicas.
bool are_alike(const graph::Graph& a, const graph::Graph& b) {
  const auto same_values = [](const Value& x, const Value& y) {
    return x.kind == y.kind && x.dtype == y.dtype && x.sizes == y.sizes;
  };
  const auto same_nodes = [](const graph::Node& x, const graph::Node& y) {
    return x.name == y.name;
  };
  return std::ranges::equal(a.values, b.values, same_values) &&
         std::ranges::equal(a.nodes, b.nodes, same_nodes);
}

bool has_results(const graph::Trace& trace) {
  return !trace.effects.empty() ||
         std::ranges::any_of(trace.graph.outputs, [](auto id) { return id != kNoValue; });
}

}  // namespace

TpuRunner::TpuRunner(pjrt::Client client, const Settings& settings)
    : client_(client),
      settings_(settings),
      memory_(std::move(client), static_cast<size_t>(settings.num_replicas), settings.timeout) {}

void TpuRunner::on_run_begin(int /*local*/) { graph::set_step_runner(this); }

void TpuRunner::on_run_end(int /*local*/) {
  graph::set_step_runner(nullptr);
  const MutexLock lock(mutex_);  // all replicas have left their last step
  flush();
}

void TpuRunner::fetch() {
  const MutexLock lock(mutex_);
  fetch_now();
}

void TpuRunner::finish() {
  const MutexLock lock(mutex_);
  flush();
  fetch_now();
}

void TpuRunner::fetch_now() {
  wait_for_runs(0);
  memory_.fetch();
}

/// Waits until no more than `left` runs have not ended.
void TpuRunner::wait_for_runs(size_t left) {
  using std::chrono::steady_clock;
  while (started_.size() > left) {
    const Started& oldest = started_.front();
    const auto deadline = steady_clock::now() + settings_.timeout;
    try {
      for (const pjrt::Event& each : oldest.ended) {
        const auto rest =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
        each.wait("wait for a run", std::max(rest, std::chrono::milliseconds(0)));
      }
    } catch (const Error& error) {
      const std::string message =
          str_cat("[", settings_.name, "] ", oldest.name, ": ", error.what());
      // Later runs have what a failed one left, and fail with it.
      if (error.code() != ErrorCode::kDeadlineExceeded) started_.clear();
      throw Error(error.code(), message);
    }
    started_.pop_front();
  }
}

int64_t TpuRunner::programs() const {
  const MutexLock lock(mutex_);
  int64_t count = 0;
  for (const auto& step : steps_) count += static_cast<int64_t>(step->programs.size());
  return count;
}

int64_t TpuRunner::runs_ahead() const {
  const MutexLock lock(mutex_);
  return runs_ahead_;
}

std::vector<at::Tensor> TpuRunner::run_step(const std::shared_ptr<const graph::Trace>& trace,
                                            const std::vector<at::Tensor>& inputs) {
  Visit visit{.trace = trace, .inputs = inputs};
  get_replica_context()->synchronize("a step on devices", &visit,
                                     [this](const std::vector<void*>& all) {
                                       std::vector<Visit*> visits;
                                       for (void* each : all) {
                                         visits.push_back(static_cast<Visit*>(each));
                                       }
                                       run_together(visits);
                                     });
  if (visit.here) executor_of(trace).run(visit.inputs, visit.outputs);
  return std::move(visit.outputs);
}

graph::Executor& TpuRunner::executor_of(const std::shared_ptr<const graph::Trace>& trace) {
  const MutexLock lock(mutex_);
  auto& executor = executors_[trace.get()];
  if (executor == nullptr) executor = std::make_unique<graph::Executor>(trace);
  return *executor;
}

void TpuRunner::run_together(const std::vector<Visit*>& visits) {
  const MutexLock lock(mutex_);
  const bool alike = std::ranges::all_of(visits, [&](const Visit* each) {
    return are_alike(each->trace->graph, visits[0]->trace->graph);
  });
  if (!alike) {
    flush();
    fetch_now();
    memory_.expect_writes_here();
    for (Visit* const each : visits) each->here = true;
    return;
  }
  Traces traces;
  Lists inputs;
  for (const Visit* const each : visits) {
    traces.push_back(each->trace);
    inputs.push_back(each->inputs);
  }
  Step& step = step_of(std::move(traces));
  if (waiting_step_ != &step) flush();
  if (!has_results(*visits[0]->trace)) {
    waiting_step_ = &step;
    waiting_.push_back(std::move(inputs));
    return;
  }
  Lists outputs = run(step, {inputs});
  for (size_t r = 0; r < visits.size(); ++r) visits[r]->outputs = std::move(outputs[r]);
}

/// Runs the steps that have waited for each other.
void TpuRunner::flush() {
  if (waiting_step_ == nullptr) return;
  const std::vector<Lists> inputs = std::exchange(waiting_, {});
  run(*std::exchange(waiting_step_, nullptr), inputs);
}

TpuRunner::Step& TpuRunner::step_of(Traces traces) {
  for (const auto& step : steps_) {
    if (step->traces == traces) return *step;
  }
  STRATA_CHECK(
      traces[0]->effects.empty(), kUnimplemented, "[", settings_.name, "] ", traces[0]->graph.name,
      ": the step leaves gradients in tensors (backward() without an optimizer of strata); "
      "use minimize");
  auto step = std::make_unique<Step>();
  step->compilable = with_update_nodes(*traces[0], settings_.num_replicas);
  step->traces = std::move(traces);
  steps_.push_back(std::move(step));
  return *steps_.back();
}

HostPlace TpuRunner::host_of(const Step& step, const Parameter& parameter) const {
  const CompilableStep& of = step.compilable;
  if (const auto slot = of.slots.find(parameter.memory); slot != of.slots.end()) {
    const auto& update = of.updates[slot->second.update];
    return {.replicas = {update->shipped_slots().at(slot->second.index).second},
            .update = update,
            .slot = slot->second.index};
  }
  HostPlace place;
  const auto variable = of.variables.find(parameter.memory);
  if (variable != of.variables.end()) place.variable = variable->second;
  const auto memory = static_cast<size_t>(parameter.memory);
  for (size_t r = 0; r < step.traces.size(); ++r) {
    const std::vector<Value>& values = step.traces[r]->graph.values;
    place.replicas.push_back(memory < values.size()
                                 ? values[memory].tensor
                                 : place.variable.value().on_replica(static_cast<int>(r)).detach());
  }
  const bool shared = place.replicas.size() > 1 &&
                      place.replicas[1].storage().is_alias_of(place.replicas[0].storage());
  STRATA_CHECK(parameter.next < 0 || !shared || place.variable, kUnimplemented, "[", settings_.name,
               "] ", step.traces[0]->graph.name, ": all replicas write one tensor, of ",
               parameter.dtype, " ", at::IntArrayRef(parameter.where.sizes),
               "; make it a Variable, or a buffer of a module that Strategy::replicate makes");
  return place;
}

TpuRunner::Program& TpuRunner::program_of(Step& step, int64_t steps) {
  const auto found = step.programs.find(steps);
  if (found != step.programs.end()) return found->second;
  graph::stablehlo::LoweredGraph lowered = graph::stablehlo::lower(
      *step.compilable.trace, {.num_replicas = settings_.num_replicas, .steps_per_run = steps});
  pjrt::Executable executable =
      client_.compile(lowered.text, {.num_replicas = settings_.num_replicas});
  Program program{.lowered = std::move(lowered), .executable = std::move(executable), .pieces = {}};
  for (const Parameter& each : program.lowered.parameters) {
    program.pieces.push_back(
        each.kind == Parameter::Kind::kCapture ? memory_.piece_of(each, host_of(step, each)) : 0);
    if (each.kind != Parameter::Kind::kRandom || !step.random.empty()) continue;
    for (int r = 0; r < settings_.num_replicas; ++r) {
      step.random.push_back(std::make_unique<pjrt::Buffer>(graph::stablehlo::random_state(
          client_, each, settings_.seed + steps_.size() - 1, static_cast<size_t>(r))));
    }
  }
  return step.programs.emplace(steps, std::move(program)).first->second;
}

/// Slots are written without a new version; the number of steps tells of a restored checkpoint.
void TpuRunner::note_restored(const Step& step) {
  for (const auto& update : step.compilable.updates) {
    const auto last = finished_.find(update.get());
    if (last != finished_.end() && last->second == update->finished()) continue;
    memory_.expect_writes_here(*update);
  }
}

/// @param inputs  Of each step. @return The outputs, a list a replica; of several steps nothing.
TpuRunner::Lists TpuRunner::run(Step& step, const std::vector<Lists>& inputs) {
  const auto steps = static_cast<int64_t>(inputs.size());
  Program& program = program_of(step, steps);
  note_restored(step);
  const std::vector<Parameter>& parameters = program.lowered.parameters;
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].kind == Parameter::Kind::kCapture) memory_.prepare(program.pieces[p]);
  }
  std::vector<at::Tensor> numbers;
  for (const auto& update : step.compilable.updates) {
    std::vector<at::Tensor> rows;
    for (const auto& row : update->next_numbers(steps)) {
      rows.push_back(at::tensor(at::ArrayRef<double>(row.data(), row.size()), at::kDouble));
    }
    numbers.push_back(steps == 1 ? rows[0] : at::stack(rows));
  }
  const graph::Graph& graph = step.compilable.trace->graph;
  const size_t replicas = step.traces.size();
  std::vector<std::vector<pjrt::Buffer>> copied;
  std::vector<std::vector<const pjrt::Buffer*>> arguments(replicas);
  for (size_t r = 0; r < replicas; ++r) {
    std::vector<at::Tensor> given = inputs[0][r];
    for (size_t i = 0; steps > 1 && i < given.size(); ++i) {
      if (!given[i].defined()) continue;
      std::vector<at::Tensor> of_steps;
      for (const Lists& each : inputs) of_steps.push_back(each[r][i]);
      given[i] = at::stack(of_steps);
    }
    given.insert(given.end(), numbers.begin(), numbers.end());
    copied.push_back(
        graph::stablehlo::copy_inputs(client_, graph, program.lowered, steps, r, given));
    size_t next = 0;
    for (size_t p = 0; p < parameters.size(); ++p) {
      switch (parameters[p].kind) {
        case Parameter::Kind::kInput:
          arguments[r].push_back(&copied[r][next++]);
          break;
        case Parameter::Kind::kCapture:
          arguments[r].push_back(&memory_.buffer(program.pieces[p], r));
          break;
        case Parameter::Kind::kRandom:
          arguments[r].push_back(step.random[r].get());
          break;
      }
    }
  }
  const auto has_ended = [](const pjrt::Event& each) { return each.is_ready(); };
  if (!started_.empty() && !std::ranges::all_of(started_.back().ended, has_ended)) ++runs_ahead_;
  wait_for_runs(settings_.runs_in_flight - 1);
  std::vector<pjrt::Event> ended;
  std::vector<std::vector<pjrt::Buffer>> results = program.executable.run(arguments, &ended);
  started_.push_back({.name = str_cat("run ", ++runs_, ", ", steps, steps == 1 ? " step" : " steps",
                                      " of ", graph.name),
                      .ended = std::move(ended),
                      .inputs = std::move(copied)});
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].next < 0) continue;
    std::vector<std::unique_ptr<pjrt::Buffer>> now;
    for (auto& of_replica : results) {
      now.push_back(
          std::make_unique<pjrt::Buffer>(of_replica[static_cast<size_t>(parameters[p].next)]));
    }
    if (parameters[p].kind == Parameter::Kind::kRandom) {
      std::swap(step.random, now);
    } else {
      now = memory_.set(program.pieces[p], std::move(now));
    }
    started_.back().states.push_back(std::move(now));
  }
  for (const auto& update : step.compilable.updates) {
    update->advance(steps);
    finished_[update.get()] = update->finished();
  }
  Lists outputs(replicas);
  const bool is_read = steps == 1 && program.lowered.num_outputs > 0;
  if (is_read) wait_for_runs(0);
  for (size_t r = 0; r < replicas && steps == 1; ++r) {
    size_t place = 0;
    for (const graph::ValueId id : graph.outputs) {
      outputs[r].push_back(id == kNoValue
                               ? at::Tensor()
                               : graph::stablehlo::read_result(
                                     results[r][place++], graph.values[static_cast<size_t>(id)], 1,
                                     settings_.timeout));
    }
  }
  return outputs;
}

}  // namespace strata::tpu
