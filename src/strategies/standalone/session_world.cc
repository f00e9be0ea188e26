#include "strategies/standalone/session_world.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "core/checked_size.h"
#include "core/sha256.h"
#include "graph/remote/step_check.h"
#include "kernels/masked_recurrent.h"
#include "optim/step/shipped_update.h"
#include "runtime/replica_group.h"
#include "runtime/sync_batch_norm_paths.h"
#include "strata/core/error.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/wire/deadline.h"
#include "strategies/standalone/server_dataset_json.h"
#include "tensor/update_rule.h"

namespace strata::standalone {
namespace {

using graph::remote::HostWork;
using graph::remote::RemoteStep;
using graph::remote::StepRun;
using graph::remote::StepWorld;
using graph::remote::Work;

bool is_spec_dtype(uint64_t dtype) {
  constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                        at::kBool,  at::kByte,   at::kChar, at::kShort,
                                        at::kInt,   at::kLong};
  return std::ranges::any_of(
      kDtypes, [&](at::ScalarType each) { return static_cast<uint64_t>(each) == dtype; });
}

/// Each element has a place of its own, without gaps.
bool is_without_gaps(const StateSpec& spec) {
  std::vector<size_t> order(spec.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t d) { return std::pair(spec.strides[d], spec.sizes[d]); });
  int64_t expected = 1;
  for (const size_t d : order) {
    if (spec.sizes[d] == 1) continue;
    if (spec.strides[d] != expected) return false;
    expected *= spec.sizes[d];
  }
  return true;
}

at::ScalarType dtype_of(const StateSpec& spec) { return static_cast<at::ScalarType>(spec.dtype); }

int64_t elements_of(const StateSpec& spec) {
  return detail::checked_product<int64_t>(spec.sizes).value_or(0);
}

bool is_same_spec(const StateSpec& a, const StateSpec& b) {
  return a.name == b.name && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
         a.trained == b.trained && a.shared == b.shared;
}

at::Tensor cleared(const StateSpec& spec) {
  const at::Tensor memory = at::zeros({elements_of(spec)}, at::dtype(dtype_of(spec)));
  return memory.as_strided(spec.sizes, spec.strides);
}

/// With its elements one behind the other.
at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor.detach() : tensor.detach().contiguous();
}

}  // namespace

SessionWorld::SessionWorld(const GroupSpec& group, const WorldLimits& limits, Budget& budget)
    : limits_(limits),
      budget_(budget),
      strategy_(make_session_strategy(group)),
      workers_(make_voters(group)) {}

SessionWorld::~SessionWorld() = default;

int SessionWorld::replicas() const { return strategy_->group().num_local_replicas(); }

bool SessionWorld::agree(bool ready) {
  if (workers_) return workers_->reduce(ReduceOp::kMin, PerReplica<int64_t>({ready ? 1 : 0})) == 1;
  if (strategy_->num_replicas_in_sync() == replicas()) return ready;
  const std::vector<int64_t> votes(static_cast<size_t>(replicas()), ready ? 1 : 0);
  return strategy_->reduce(ReduceOp::kMin, PerReplica(votes)) == 1;
}

at::Tensor SessionWorld::tensor_of(const State& state, int replica) const {
  if (state.variable) return state.variable->on_replica(replica);
  return state.replicas[state.spec.shared ? 0 : static_cast<size_t>(replica)];
}

void SessionWorld::check_state(size_t i, const StateSpec& spec) const {
  const auto require = [&](bool holds, const char* what) {
    STRATA_CHECK(holds, kInvalidArgument, "[standalone] tensor ", i, " has ", what,
                 "; expected one that a client of this version describes");
  };
  require(is_spec_dtype(spec.dtype), "an unknown dtype");
  require(spec.sizes.size() == spec.strides.size() && spec.sizes.size() <= 64,
          "unequal numbers of sizes and strides");
  const auto count = detail::checked_product<int64_t>(spec.sizes);
  require(count && detail::checked_product<int64_t>({*count, int64_t{16}}),
          "sizes that are negative or too large");
  require(*count == 0 || is_without_gaps(spec), "strides with gaps");
  require(
      spec.trained ? at::isFloatingType(dtype_of(spec)) && !spec.shared : spec.sizes.size() == 1,
      "another form than its kind has");
}

uint64_t SessionWorld::bytes_of_state(const StateSpec& spec) const {
  const auto bytes = static_cast<uint64_t>(elements_of(spec)) * c10::elementSize(dtype_of(spec));
  const auto copies = static_cast<uint64_t>(spec.shared ? 1 : replicas());
  // A trained one: its values as they come and in the strategy, and the gradients' sums.
  return bytes * copies * (spec.trained ? 3 : 1);
}

std::vector<at::Tensor> SessionWorld::Addition::tensors() const {
  std::vector<at::Tensor> all;
  for (const auto& each : elements) all.insert(all.end(), each.begin(), each.end());
  return all;
}

SessionWorld::Addition SessionWorld::begin_add(const Request& request) {
  Addition made;
  STRATA_CHECK(
      request.states.size() >= states_.size() && request.updates.size() >= update_specs_.size(),
      kFailedPrecondition, "[standalone] the session has ", states_.size(), " tensors and ",
      update_specs_.size(), " optimizers, and the client ", request.states.size(), " and ",
      request.updates.size(), "; a client that resumes a session runs the program that began it");
  STRATA_CHECK(request.states.size() <= limits_.states && request.updates.size() <= limits_.states,
               kResourceExhausted, "[standalone] got ", request.states.size(), " tensors and ",
               request.updates.size(), " optimizers; expected ", limits_.states, " at most");
  for (size_t i = 0; i < states_.size(); ++i) {
    STRATA_CHECK(is_same_spec(states_[i].spec, request.states[i]), kFailedPrecondition,
                 "[standalone] tensor ", i, " of the session is '", states_[i].spec.name,
                 "', and the client's another one, '", request.states[i].name,
                 "'; a client that resumes a session runs the program that began it");
  }
  uint64_t bytes = 0;
  for (size_t i = states_.size(); i < request.states.size(); ++i) {
    check_state(i, request.states[i]);
    const uint64_t more = bytes_of_state(request.states[i]);
    STRATA_CHECK(!__builtin_add_overflow(bytes, more, &bytes), kResourceExhausted,
                 "[standalone] got tensors of more bytes than can be counted");
    made.states.push_back(request.states[i]);
  }

  // Optimizers: those that the session has are the same; new ones take new variables.
  std::set<int64_t> taken;
  for (size_t u = 0; u < request.updates.size(); ++u) {
    const UpdateSpec& spec = request.updates[u];
    if (u < update_specs_.size()) {
      STRATA_CHECK(
          spec.options == update_specs_[u].options && spec.variables == update_specs_[u].variables,
          kFailedPrecondition, "[standalone] optimizer ", u,
          " of the session has other options or variables than the client's; a client "
          "that resumes a session runs the program that began it");
    }
    const auto optimizer =
        optimizers::make_shipped(Json::parse(spec.options, {.parts = 10'000}), /*learning_rate=*/0);
    STRATA_CHECK(!spec.variables.empty(), kInvalidArgument, "[standalone] optimizer ", u,
                 " has no variables");
    for (const int64_t i : spec.variables) {
      const bool known = i >= 0 && i < static_cast<int64_t>(request.states.size()) &&
                         request.states[static_cast<size_t>(i)].trained && taken.insert(i).second;
      STRATA_CHECK(known, kInvalidArgument, "[standalone] optimizer ", u, " has the variable ", i,
                   "; expected trained tensors of the session, each of one optimizer");
      if (u < update_specs_.size()) continue;
      STRATA_CHECK(i >= static_cast<int64_t>(states_.size()), kInvalidArgument,
                   "[standalone] optimizer ", u, " has the variable ", i,
                   ", which the session has without one");
      const StateSpec& variable = request.states[static_cast<size_t>(i)];
      constexpr uint64_t kExtraSlots = 2;
      const auto left_out =
          tensor::make_rule(tensor::rule_of_left_out(optimizer->rule().options()));
      const auto slots =
          static_cast<uint64_t>(std::max(optimizer->rule().num_slots(), left_out->num_slots())) +
          kExtraSlots;
      bytes += static_cast<uint64_t>(elements_of(variable)) * c10::elementSize(dtype_of(variable)) *
               slots * static_cast<uint64_t>(replicas());
    }
    if (u >= update_specs_.size()) made.updates.push_back(spec);
  }
  for (size_t i = 0; i < request.states.size(); ++i) {
    STRATA_CHECK(!request.states[i].trained || taken.contains(static_cast<int64_t>(i)),
                 kInvalidArgument, "[standalone] tensor ", i, " is trained by no optimizer");
  }

  if (!request.graphs.empty()) {
    STRATA_CHECK(request.graphs.size() == static_cast<size_t>(replicas()), kInvalidArgument,
                 "[standalone] got ", request.graphs.size(), " graphs; expected ", replicas(),
                 ", one a replica of this server");
    Sha256 hash;
    for (const std::string& graph : request.graphs) {
      const uint64_t size = graph.size();
      hash.update(&size, sizeof size);
      hash.update(graph.data(), graph.size());
    }
    made.fingerprint = hash.hex_digest();
    const auto same = std::ranges::find(steps_, made.fingerprint, &Step::fingerprint);
    if (same != steps_.end()) made.step = same - steps_.begin();
  }
  budget_.take(bytes);  // for good; a session that adds what fails does so at its own cost
  if (!request.graphs.empty() && !made.step) {
    STRATA_CHECK(steps_.size() < limits_.steps, kResourceExhausted, "[standalone] the session has ",
                 steps_.size(),
                 " steps, and no more are allowed; pad or drop batches of other "
                 "sizes");
    StepWorld world{.replicas = strategy_->num_replicas_in_sync(),
                    .memory = (budget_.left() + transient_) / static_cast<uint64_t>(replicas()),
                    .parts = limits_.parts};
    for (const StateSpec& spec : request.states) {
      world.states.push_back({dtype_of(spec), elements_of(spec)});
    }
    for (const UpdateSpec& spec : request.updates) {
      auto& parameters = world.updates.emplace_back();
      for (const int64_t i : spec.variables) {
        const StateSpec& variable = request.states[static_cast<size_t>(i)];
        parameters.push_back({dtype_of(variable), variable.sizes});
      }
    }
    uint64_t results = 0;
    for (const std::string& bytes_of_graph : request.graphs) {
      STRATA_CHECK(bytes_of_graph.size() <= limits_.graph_bytes, kResourceExhausted,
                   "[standalone] got a step of ", bytes_of_graph.size(), " bytes; expected ",
                   limits_.graph_bytes, " at most; start the server with more --graph");
      RemoteStep step = graph::remote::decode_step(bytes_of_graph);
      graph::remote::check_step(step, world);
      for (size_t i = 0; i < step.graph.values.size(); ++i) {
        const graph::Value& value = step.graph.values[i];
        const bool read_only =
            step.states[i] < 0 || !request.states[static_cast<size_t>(step.states[i])].shared;
        STRATA_CHECK(read_only || value.kind != graph::ValueKind::kState, kInvalidArgument,
                     "[standalone] ", step.graph.name, ": value ", i,
                     " is written, and one for all replicas");
      }
      results += step.bytes;
      for (const graph::ValueId id : step.graph.inputs) {
        if (id == graph::kNoValue) continue;
        const graph::Value& value = step.graph.values[static_cast<size_t>(id)];
        results +=
            static_cast<uint64_t>(detail::checked_product<int64_t>(value.sizes).value_or(0)) *
            c10::elementSize(value.dtype);
      }
      made.graphs.push_back(std::move(step));
    }
    if (results > transient_) {
      budget_.take(results - transient_);
      transient_ = results;
    }
  }
  for (const StateSpec& spec : made.states) {
    auto& elements = made.elements.emplace_back();
    const int copies = spec.shared || spec.trained ? 1 : replicas();
    for (int r = 0; r < copies; ++r) elements.push_back(cleared(spec));
  }
  return made;
}

int64_t SessionWorld::finish_add(Addition addition) {
  for (size_t i = 0; i < addition.states.size(); ++i) {
    State state{.spec = addition.states[i], .variable = {}, .replicas = {}};
    if (state.spec.trained) {
      strategy_->scope([&] {
        state.variable.emplace(addition.elements[i][0], VariableOptions{.name = state.spec.name});
      });
    } else {
      state.replicas = std::move(addition.elements[i]);
    }
    states_.push_back(std::move(state));
  }
  for (const UpdateSpec& spec : addition.updates) {
    auto optimizer = optimizers::make_shipped(Json::parse(spec.options), /*learning_rate=*/0);
    std::vector<Variable> variables;
    for (const int64_t i : spec.variables) {
      variables.push_back(*states_[static_cast<size_t>(i)].variable);
    }
    optimizer->build(std::move(variables));
    updates_.push_back(std::move(optimizer));
    update_specs_.push_back(spec);
  }
  if (addition.step) return *addition.step;
  if (addition.graphs.empty()) return -1;
  Step step{.fingerprint = addition.fingerprint, .runs = {}};
  for (RemoteStep& graph : addition.graphs) {
    step.runs.emplace_back(std::make_shared<const RemoteStep>(std::move(graph)));
  }
  steps_.push_back(std::move(step));
  return static_cast<int64_t>(steps_.size()) - 1;
}

std::vector<at::Tensor> SessionWorld::inputs_of(const Request& request) const {
  STRATA_CHECK(request.step >= 0 && request.step < static_cast<int64_t>(steps_.size()), kNotFound,
               "[standalone] run: got step ", request.step, "; the session has ", steps_.size());
  STRATA_CHECK(request.run == runs_ + 1, kFailedPrecondition, "[standalone] run: got number ",
               request.run, "; the session has made ", runs_);
  STRATA_CHECK(request.rates.size() == updates_.size(), kInvalidArgument, "[standalone] run: got ",
               request.rates.size(), " learning rates for ", updates_.size(), " optimizers");
  const Step& step = steps_[static_cast<size_t>(request.step)];
  std::set<int64_t> read;
  for (const InputSource& source : request.sources) {
    const graph::Value* const value =
        source.input < 0 ? nullptr : input_of(step, static_cast<size_t>(source.input));
    STRATA_CHECK(value != nullptr && source.dataset >= 0 &&
                     source.dataset < static_cast<int64_t>(datasets_.size()) &&
                     read.insert(source.input).second,
                 kInvalidArgument, "[standalone] run: got input ", source.input, " of dataset ",
                 source.dataset, "; expected inputs of the step, each once, and one of ",
                 datasets_.size(), " datasets");
  }
  std::vector<at::Tensor> inputs;
  const size_t count = step.runs.size() * step.runs[0].step().graph.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const graph::Value* const value = input_of(step, i);
    inputs.push_back(
        value == nullptr || read.contains(static_cast<int64_t>(i))
            ? at::Tensor()
            : at::empty_strided(value->sizes, value->strides, at::dtype(value->dtype)));
  }
  return inputs;
}

/// Null: the step has no such input, or makes no use of it.
const graph::Value* SessionWorld::input_of(const Step& step, size_t input) const {
  const size_t inputs = step.runs[0].step().graph.inputs.size();
  if (inputs == 0 || input >= step.runs.size() * inputs) return nullptr;
  const graph::Graph& graph = step.runs[input / inputs].step().graph;
  const graph::ValueId id = graph.inputs[input % inputs];
  return id == graph::kNoValue ? nullptr : &graph.values[static_cast<size_t>(id)];
}

void SessionWorld::read_inputs(const Request& request, std::vector<at::Tensor>& inputs) {
  for (const InputSource& source : request.sources) {
    const graph::Value& value =
        *input_of(steps_[static_cast<size_t>(request.step)], static_cast<size_t>(source.input));
    const int64_t rows = value.sizes.empty() ? 0 : value.sizes[0];
    const at::Tensor read = datasets_[static_cast<size_t>(source.dataset)].dataset->rows(
        source.epoch, source.batch, source.field, source.row, rows);
    STRATA_CHECK(read.scalar_type() == value.dtype &&
                     read.sizes() == at::IntArrayRef(value.sizes) &&
                     read.strides() == at::IntArrayRef(value.strides),
                 kInvalidArgument, "[standalone] run: dataset ", source.dataset, " has ",
                 read.scalar_type(), " ", read.sizes(), " for input ", source.input,
                 "; the step takes ", value.dtype, " ", at::IntArrayRef(value.sizes));
    inputs[static_cast<size_t>(source.input)] = read.clone();  // a step may write to it
  }
}

SessionWorld::Description SessionWorld::begin_describe(const Request& request) {
  for (size_t i = 0; i < datasets_.size(); ++i) {
    if (datasets_[i].text == request.dataset) return {.text = {}, .dataset = nullptr, .number = i};
  }
  STRATA_CHECK(datasets_.size() < limits_.datasets, kResourceExhausted,
               "[standalone] the session has ", datasets_.size(),
               " datasets, and no more are allowed");
  const ServerDatasetOptions options =
      server_dataset_of(Json::parse(request.dataset, {.parts = 200'000}));
  return {.text = request.dataset,
          .dataset = std::make_unique<ServedDataset>(limits_.data, options, budget_.of()),
          .number = datasets_.size()};
}

void SessionWorld::finish_describe(Description description) {
  if (description.dataset) datasets_.push_back(std::move(description));
}

/// Sparse ones come as which rows, and their values.
void SessionWorld::apply_gradients(const HostWork& work, const std::vector<at::Tensor>& tensors) {
  const std::vector<int64_t>& variables = update_specs_[work.update].variables;
  std::vector<at::Tensor> gradients;
  auto next = tensors.begin();
  for (size_t i = 0; i < variables.size(); ++i) {
    const bool sparse = !work.sparse.empty() && work.sparse[i] == 1;
    gradients.push_back(*next++);
    if (!sparse) continue;
    const at::Tensor rows = gradients.back();
    const at::Tensor& values = *next++;
    const std::vector<int64_t>& sizes = states_[static_cast<size_t>(variables[i])].spec.sizes;
    const bool inside = rows.numel() == 0 ||
                        (rows.min().item<int64_t>() >= 0 && rows.max().item<int64_t>() < sizes[0]);
    STRATA_CHECK(inside, kInvalidArgument, "[standalone] gradient ", i, " of optimizer ",
                 work.update, " has a row beyond the ", sizes[0], " of its variable");
    gradients.back() = at::_sparse_coo_tensor_unsafe(rows, values, sizes);
  }
  updates_[work.update]->apply_gradients(gradients, {.weight = work.numbers[0]});
}

/// All copies of a variable on this server, by one of its replicas.
void SessionWorld::assign(const HostWork& work, const at::Tensor& value) {
  State& state = states_[work.update];
  STRATA_CHECK(state.variable.has_value(), kInvalidArgument, "[standalone] got a value for tensor ",
               work.update, ", which is no variable");
  at::Tensor given = value;
  get_replica_context()->synchronize(
      "set_variable", &given,
      [&](const std::vector<void*>& all) {
        const at::Tensor& first = *static_cast<const at::Tensor*>(all[0]);
        for (int r = 0; r < replicas(); ++r) state.variable->on_replica(r).detach().copy_(first);
        state.variable->state()->bump_version();
      },
      /*key=*/work.update);
}

std::vector<at::Tensor> SessionWorld::run_host(const HostWork& work,
                                               const std::vector<at::Tensor>& tensors) {
  const ReplicaContext& replica = *get_replica_context();
  switch (work.work) {
    case Work::kAllReduce: {
      const auto op = static_cast<ReduceOp>(static_cast<int>(work.numbers[0]));
      return {replica.all_reduce(op, tensors[0]).contiguous()};
    }
    case Work::kAllGather:
      return {replica.all_gather(tensors[0], static_cast<int64_t>(work.numbers[0])).contiguous()};
    case Work::kMergeMoments: {
      const detail::Moments merged = detail::merge_moments(
          &replica, {work.numbers[0], tensors[0].contiguous(), tensors[1].contiguous()});
      STRATA_CHECK(merged.count > 0, kInvalidArgument,
                   "[standalone] batch normalization over all replicas: got no elements");
      return {merged.mean.clone(), merged.m2.clone(), at::scalar_tensor(merged.count, at::kDouble)};
    }
    case Work::kUpdate:
      apply_gradients(work, tensors);
      return {};
    case Work::kAssign:
      assign(work, tensors[1]);
      return {};
    case Work::kMaskedSteps: {
      kernels::MaskedLayer layer = *kernels::MaskedLayer::of_numbers(work.numbers);
      layer.wanted.assign(layer.wanted.size(), false);  // the backward computes it again
      return kernels::MaskedLayerRun(std::move(layer)).forward(tensors);
    }
    case Work::kMaskedStepsBackward:
      return kernels::masked_backward(*kernels::MaskedLayer::of_numbers(work.numbers), tensors);
    case Work::kOperator:
      break;
  }
  return {};
}

std::vector<at::Tensor> SessionWorld::run(const Request& request,
                                          const std::vector<at::Tensor>& inputs) {
  Step& step = steps_[static_cast<size_t>(request.step)];
  for (size_t u = 0; u < updates_.size(); ++u) updates_[u]->set_learning_rate(request.rates[u]);
  strategy_->group().set_step(runs_);
  ++runs_;
  const auto deadline = wire::Deadline::after(limits_.step_time);
  const auto watch = [&] {
    STRATA_CHECK(!deadline.passed(), kDeadlineExceeded, "[standalone] run ", request.run,
                 " takes longer than the server allows; start it with more --time");
  };
  const size_t per_replica = inputs.size() / step.runs.size();
  std::vector<std::vector<at::Tensor>> outputs(step.runs.size());
  strategy_->run([&] {
    const int local = get_replica_context()->local_replica();
    const auto place = static_cast<size_t>(local);
    std::vector<at::Tensor> states;
    states.reserve(states_.size());
    for (const State& state : states_) states.push_back(tensor_of(state, local));
    const auto begin = inputs.begin() + static_cast<std::ptrdiff_t>(place * per_replica);
    outputs[place] = step.runs[place].run(
        states, {begin, begin + static_cast<std::ptrdiff_t>(per_replica)},
        [this](const HostWork& work, const std::vector<at::Tensor>& tensors) {
          return run_host(work, tensors);
        },
        watch);
    // What the session keeps changes in the next run, perhaps before these are sent.
    for (at::Tensor& output : outputs[place]) {
      if (output.defined()) output = output.detach().clone();
    }
  });
  std::vector<at::Tensor> all;
  for (const auto& each : outputs) {
    for (const at::Tensor& output : each) all.push_back(output.defined() ? dense(output) : output);
  }
  return all;
}

void SessionWorld::check_numbers(const Request& request) const {
  std::set<int64_t> seen;
  for (const int64_t i : request.tensors) {
    STRATA_CHECK(i >= 0 && i < static_cast<int64_t>(states_.size()) && seen.insert(i).second,
                 kInvalidArgument, "[standalone] got tensor ", i, "; the session has ",
                 states_.size(), ", each of which may be named once");
  }
  seen.clear();
  for (const int64_t u : request.slots) {
    STRATA_CHECK(u >= 0 && u < static_cast<int64_t>(updates_.size()) && seen.insert(u).second,
                 kInvalidArgument, "[standalone] got optimizer ", u, "; the session has ",
                 updates_.size(), ", each of which may be named once");
  }
}

std::vector<at::Tensor> SessionWorld::fetch(const Request& request) const {
  check_numbers(request);
  std::vector<at::Tensor> all;
  for (const int64_t i : request.tensors) {
    const State& state = states_[static_cast<size_t>(i)];
    const int copies = state.spec.shared || state.spec.trained ? 1 : replicas();
    for (int r = 0; r < copies; ++r) all.push_back(dense(tensor_of(state, r)));
  }
  for (const int64_t u : request.slots) {
    for (const auto& [name, slot] : updates_[static_cast<size_t>(u)]->slots()) {
      all.push_back(slot.detach().contiguous());
    }
  }
  return all;
}

void SessionWorld::fetch_parameters() {
  for (const auto& update : updates_) optimizers::shipped_update_of(*update).fetch_shipped();
}

std::vector<int64_t> SessionWorld::iterations_of(const Request& request) const {
  std::vector<int64_t> all;
  for (const int64_t u : request.slots) {
    all.push_back(updates_[static_cast<size_t>(u)]->iterations());
  }
  return all;
}

std::vector<at::Tensor> SessionWorld::memory_for_push(const Request& request) const {
  check_numbers(request);
  STRATA_CHECK(request.iterations.size() == request.slots.size() &&
                   std::ranges::all_of(request.iterations, [](int64_t each) { return each >= 0; }),
               kInvalidArgument, "[standalone] push: got ", request.iterations.size(),
               " numbers of iterations for ", request.slots.size(), " optimizers");
  std::vector<at::Tensor> all;
  uint64_t bytes = 0;
  for (const at::Tensor& each : fetch(request)) {
    bytes += each.nbytes();
    STRATA_CHECK(bytes <= budget_.left(), kResourceExhausted, "[standalone] push: got more than ",
                 budget_.left(), " bytes, which the server has left; push less at once");
    all.push_back(at::empty_like(each));
  }
  return all;
}

void SessionWorld::push(const Request& request, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  auto next = values.begin();
  for (const int64_t i : request.tensors) {
    State& state = states_[static_cast<size_t>(i)];
    if (state.variable) {
      state.variable->assign(*next++);
      continue;
    }
    const int copies = state.spec.shared ? 1 : replicas();
    for (int r = 0; r < copies; ++r) tensor_of(state, r).copy_(*next++);
  }
  for (size_t k = 0; k < request.slots.size(); ++k) {
    optimizers::Optimizer& update = *updates_[static_cast<size_t>(request.slots[k])];
    const size_t slots = update.slots().size();
    for (size_t slot = 0; slot < slots; ++slot) update.set_slot(slot, *next++);
    update.set_iterations(request.iterations[k]);
  }
  for (const auto& update : updates_) optimizers::shipped_update_of(*update).flush_shipped();
}

void SessionWorld::abandon(const std::string& why) {
  Strategy* const group = workers_ ? workers_.get() : strategy_.get();
  if (auto* const workers = dynamic_cast<MultiWorkerMirroredStrategy*>(group)) {
    if (workers->server()) workers->server()->abort(why);
  }
}

}  // namespace strata::standalone
