#include "strategies/standalone/client.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <utility>

#include "graph/describe_node.h"
#include "graph/remote/step_graph.h"
#include "strata/core/error.h"
#include "strategies/standalone/server_dataset_json.h"

namespace strata::standalone {
namespace {

/// Memory for what a server sends of a value: as it lies there, if it is dense.
at::Tensor memory_for(const graph::Value& value) {
  const at::TensorOptions options = at::dtype(value.dtype);
  const at::Tensor made = at::empty_strided(value.sizes, value.strides, options);
  return made.is_non_overlapping_and_dense() ? made : at::empty(value.sizes, options);
}

std::vector<at::Tensor> memory_for_outputs(const graph::Graph& graph) {
  std::vector<at::Tensor> outputs;
  for (const graph::ValueId id : graph.outputs) {
    outputs.push_back(id == graph::kNoValue ? at::Tensor()
                                            : memory_for(graph.values[static_cast<size_t>(id)]));
  }
  return outputs;
}

/// An error of a server names a node, and does not know the program's lines.
template <typename Work>
void with_places(const graph::Graph& graph, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string message = graph::with_place(error.what(), graph);
    if (message == error.what()) throw;
    throw Error(error.code(), message);
  }
}

}  // namespace

// --- Runs

void StandaloneClient::on_run_begin(int /*local*/) { graph::set_step_runner(this); }
void StandaloneClient::on_run_end(int /*local*/) { graph::set_step_runner(nullptr); }

std::vector<at::Tensor> StandaloneClient::run_step(const std::shared_ptr<const graph::Trace>& trace,
                                                   const std::vector<at::Tensor>& inputs) {
  Visit visit{.trace = trace, .inputs = inputs, .outputs = {}};
  get_replica_context()->synchronize(
      "a step on servers", &visit, [this](const std::vector<void*>& all) {
        std::vector<Visit*> visits;
        for (void* each : all) {
          visits.push_back(static_cast<Visit*>(each));
        }
        with_places(visits[0]->trace->graph, [&] { run_together(visits); });
      });
  return std::move(visit.outputs);
}

void StandaloneClient::run_together(const std::vector<Visit*>& visits) {
  const MutexLock lock(mutex_);
  servers_.connect();
  const std::vector<std::vector<InputSource>> sources = take_inputs(visits);
  const Step& step = step_of(visits);
  state_.push_changed();
  const uint64_t run = servers_.runs() + 1;
  const size_t per_worker = servers_.replicas_per_worker();
  servers_.resuming([&] {
    STRATA_CHECK(servers_.runs() + 1 == run || servers_.runs() == run, kDataLoss,
                 "[standalone] the servers have made ", servers_.runs(), " runs, and this client ",
                 run - 1, "; another client has the session: begin a new one");
    servers_.ask_workers([&](size_t i) {
      Request request{.kind = RequestKind::kRun, .step = step.number, .run = run};
      request.rates = state_.next_rates();
      request.sources = sources[i];
      return request;
    });
    for (size_t r = 0; r < visits.size(); ++r) {
      ServerConnections::Server& worker = servers_.workers()[r / per_worker];
      worker.transfer.send(*worker.connection, visits[r]->inputs);
    }
    servers_.replies_of_workers();
    for (size_t r = 0; r < visits.size(); ++r) {
      ServerConnections::Server& worker = servers_.workers()[r / per_worker];
      visits[r]->outputs = memory_for_outputs(visits[r]->trace->graph);
      worker.transfer.receive(*worker.connection, visits[r]->outputs);
    }
    servers_.wait_for_transfers();
  });
  servers_.set_runs(run);
  stale_ = true;
  state_.count_finished(step.updates, updates_per_run());
}

/// Makes the inputs dense tensors, and leaves out those that the servers read. @return these, by worker.
std::vector<std::vector<InputSource>> StandaloneClient::take_inputs(
    const std::vector<Visit*>& visits) const {
  const size_t per_worker = servers_.replicas_per_worker();
  std::vector<std::vector<InputSource>> sources(servers_.num_workers());
  for (size_t r = 0; r < visits.size(); ++r) {
    std::vector<at::Tensor>& inputs = visits[r]->inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      at::Tensor& input = inputs[i];
      if (const auto origin = stand_ins_->find(input)) {
        sources[r / per_worker].push_back(
            {.input = static_cast<int64_t>((r % per_worker) * inputs.size() + i),
             .dataset = origin->dataset,
             .epoch = origin->epoch,
             .batch = origin->batch,
             .field = origin->field,
             .row = origin->row});
        input = at::Tensor();
      }
      if (!input.defined()) continue;
      STRATA_CHECK(input.is_non_overlapping_and_dense(), kUnimplemented,
                   "[standalone] got an input of ", input.sizes(), " with strides ",
                   input.strides(), "; expected one without gaps: call contiguous()");
      input = input.detach();
    }
  }
  return sources;
}

/// Of the variables: each worker's pushes are one, unless they make a step together.
int64_t StandaloneClient::updates_per_run() const {
  const auto& parameters = servers_.settings().parameters;
  const bool together = !parameters || parameters->consistency == ps::Consistency::kSynchronous;
  return together ? 1 : num_servers();
}

// --- Steps

StandaloneClient::Step& StandaloneClient::step_of(const std::vector<Visit*>& visits) {
  RemoteState::Traces traces;
  for (const Visit* visit : visits) traces.push_back(visit->trace);
  for (Step& step : steps_) {
    if (step.traces == traces) return step;
  }
  Step step{.traces = std::move(traces), .updates = {}, .number = -1};
  add(step);
  steps_.push_back(std::move(step));
  return steps_.back();
}

void StandaloneClient::add(Step& step) {
  const RemoteState::Mark before = state_.mark();
  try {
    const std::vector<std::vector<std::string>> graphs = graphs_of_workers(step);
    servers_.resuming([&] {
      servers_.ask_workers([&](size_t i) {
        return Request{.kind = RequestKind::kAdd,
                       .states = state_.tensor_specs(),
                       .updates = state_.update_specs(),
                       .graphs = graphs[i]};
      });
      const std::vector<Reply> replies = servers_.replies_of_workers();
      state_.send_new(replies);
      step.number = servers_.replies_of_workers().back().step;
      state_.make_equal(before, replies[0]);
    });
  } catch (...) {
    state_.roll_back(before);
    throw;
  }
}

/// What each worker gets of a step: a graph for each of its replicas.
std::vector<std::vector<std::string>> StandaloneClient::graphs_of_workers(Step& step) {
  const graph::Graph& first = step.traces[0]->graph;
  for (const auto& trace : step.traces) {
    STRATA_CHECK(trace->effects.empty(), kUnimplemented, "[standalone] ", first.name,
                 " leaves gradients in .grad(); let an optimizer's minimize take them");
    STRATA_CHECK(trace->graph.values.size() == first.values.size() &&
                     trace->graph.nodes.size() == first.nodes.size(),
                 kUnimplemented, "[standalone] ", first.name,
                 " is another step on another replica; make the same calls on all of them");
  }
  // First the variables, then all other tensors: a value may lie in a variable's memory.
  for (const graph::Node& node : first.nodes) {
    if (graph::remote::work_of(node) == graph::remote::Work::kUpdate) {
      step.updates.push_back(state_.update_of(node));
    }
  }
  std::vector<std::vector<std::string>> graphs(servers_.num_workers());
  for (size_t r = 0; r < step.traces.size(); ++r) {
    const graph::Trace& trace = *step.traces[r];
    const auto place = [&](const graph::Value& value) {
      const auto index = static_cast<size_t>(&value - trace.graph.values.data());
      return state_.place_of(step.traces, index, static_cast<int>(r));
    };
    const auto update = [&](const graph::Node& node) {
      return static_cast<int64_t>(state_.update_of(node));
    };
    graphs[r / servers_.replicas_per_worker()].push_back(
        graph::remote::encode_step(trace, place, update));
  }
  return graphs;
}

// --- Outside of runs

data::Dataset StandaloneClient::describe(const ServerDatasetOptions& options) {
  const MutexLock lock(mutex_);
  check_dataset(options);
  const std::string text = to_json(options).dump();
  std::vector<Reply> replies;
  servers_.resuming([&] {
    servers_.ask_workers(
        [&](size_t) { return Request{.kind = RequestKind::kDescribe, .dataset = text}; });
    replies = servers_.replies_of_workers();
  });
  data::ElementSpec fields;
  for (const FieldSpec& field : replies[0].fields) {
    fields.push_back({.shape = field.sizes, .dtype = static_cast<at::ScalarType>(field.dtype)});
  }
  for (const Reply& reply : replies) {
    STRATA_CHECK(reply.batches == replies[0].batches && reply.dataset == replies[0].dataset,
                 kFailedPrecondition, "[standalone] server_dataset: got ", reply.batches,
                 " batches on one server and ", replies[0].batches,
                 " on another; give all of them the same files");
  }
  return data::Dataset::range(replies[0].batches)
      .map([stand_ins = stand_ins_, fields, number = replies[0].dataset](
               const data::Example& batch, const data::ElementKey& key) {
        return stand_ins->make({.dataset = number,
                                .epoch = static_cast<int64_t>(key.epoch),
                                .batch = batch.x().item<int64_t>()},
                               fields);
      });
}

void StandaloneClient::fetch() {
  const MutexLock lock(mutex_);
  if (!stale_) return;
  stale_ = false;  // what follows reads values of this process
  try {
    state_.fetch_written();
  } catch (...) {
    stale_ = true;
    throw;
  }
}

void StandaloneClient::push() {
  const MutexLock lock(mutex_);
  state_.push_all();
  stale_ = false;
}

void StandaloneClient::close() {
  const MutexLock lock(mutex_);
  servers_.close();
}

}  // namespace strata::standalone
