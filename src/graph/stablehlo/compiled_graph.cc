#include "graph/stablehlo/compiled_graph.h"

#include "graph/stablehlo/transfers.h"
#include "strata/core/error.h"

namespace strata::graph::stablehlo {
CompiledGraph::CompiledGraph(std::shared_ptr<const Trace> trace, const pjrt::Client& client,
                             const CompiledOptions& options)
    : trace_(std::move(trace)),
      client_(client),
      options_(options),
      lowered_(lower(
          *trace_, {.num_replicas = options.num_replicas, .steps_per_run = options.steps_per_run})),
      executable_(client_.compile(lowered_.text, {.num_replicas = options.num_replicas})),
      kept_(static_cast<size_t>(options.num_replicas)) {
  for (size_t r = 0; r < kept_.size(); ++r) {
    kept_[r].resize(lowered_.parameters.size());
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      if (lowered_.parameters[p].kind != Parameter::Kind::kRandom) continue;
      kept_[r][p] = std::make_unique<pjrt::Buffer>(
          random_state(client_, lowered_.parameters[p], options_.seed, r));
    }
  }
  push();
}

void CompiledGraph::push() {
  for (size_t r = 0; r < kept_.size(); ++r) {
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      const Parameter& each = lowered_.parameters[p];
      if (each.kind != Parameter::Kind::kCapture) continue;
      kept_[r][p] = std::make_unique<pjrt::Buffer>(copy_capture(client_, each, each.tensor, r));
    }
  }
}

void CompiledGraph::pull() {
  for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
    const Parameter& each = lowered_.parameters[p];
    if (each.kind != Parameter::Kind::kCapture || each.next < 0) continue;
    read_capture(*kept_[0][p], each, each.tensor, options_.timeout);
  }
}

std::vector<std::vector<at::Tensor>> CompiledGraph::run(
    const std::vector<std::vector<at::Tensor>>& inputs) {
  const Graph& graph = trace_->graph;
  STRATA_CHECK(inputs.size() == kept_.size(), kInvalidArgument, "[stablehlo] run: ", graph.name,
               ": got inputs for ", inputs.size(), " replicas; expected ", kept_.size());
  std::vector<std::vector<pjrt::Buffer>> copied;
  std::vector<std::vector<const pjrt::Buffer*>> arguments(inputs.size());
  for (size_t r = 0; r < inputs.size(); ++r) {
    STRATA_CHECK(inputs[r].size() == graph.inputs.size(), kInvalidArgument,
                 "[stablehlo] run: ", graph.name, ": got ", inputs[r].size(), " inputs; expected ",
                 graph.inputs.size());
    copied.push_back(copy_inputs(client_, graph, lowered_, options_.steps_per_run, r, inputs[r]));
    size_t next = 0;
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      const bool input = lowered_.parameters[p].kind == Parameter::Kind::kInput;
      arguments[r].push_back(input ? &copied[r][next++] : kept_[r][p].get());
    }
  }
  std::vector<std::vector<pjrt::Buffer>> results = executable_.run(arguments);
  std::vector<std::vector<at::Tensor>> outputs(results.size());
  for (size_t r = 0; r < results.size(); ++r) {
    for (size_t p = 0; p < lowered_.parameters.size(); ++p) {
      const int64_t next = lowered_.parameters[p].next;
      if (next < 0) continue;
      kept_[r][p] = std::make_unique<pjrt::Buffer>(results[r][static_cast<size_t>(next)]);
    }
  }
  gradients_.clear();
  for (size_t r = 0; r < results.size(); ++r) {
    size_t place = 0;
    const auto read = [&](ValueId id, bool stacked) {
      return read_result(results[r][place++], graph.values[static_cast<size_t>(id)],
                         stacked ? options_.steps_per_run : 1, options_.timeout);
    };
    for (const ValueId id : graph.outputs) {
      outputs[r].push_back(id == kNoValue ? at::Tensor() : read(id, true));
    }
    if (r > 0) continue;
    for (const GradientEffect& effect : trace_->effects) {
      for (const ValueId id : effect.gradients) gradients_.push_back(read(id, false));
    }
  }
  return outputs;
}

}  // namespace strata::graph::stablehlo
