#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/stablehlo/lower.h"
#include "pjrt/client.h"

namespace strata::graph::stablehlo {

struct CompiledOptions {
  /// On the client's first devices, one each.
  int64_t num_replicas = 1;
  /// That each run makes; inputs and outputs have an axis for them, in front.
  int64_t steps_per_run = 1;
  uint64_t seed = 0;  ///< Of random numbers; each replica has others.
  std::chrono::milliseconds timeout = pjrt::kDefaultTimeout;  ///< Of a run.
};

/// A trace that a compiler has made a program of, with its tensors on the devices: captures are copied there
/// once, and what the step writes stays there from run to run. The program's own tensors are then out of
/// date until `pull`.
/// Threads: one at a time.
class CompiledGraph {
 public:
  /// Lowers and compiles, and copies captures to the devices, equal ones to each replica.
  /// @throws Error  kUnimplemented: an operator without a rule. The plugin's.
  CompiledGraph(std::shared_ptr<const Trace> trace, const pjrt::Client& client,
                const CompiledOptions& options = {});

  /// Runs on all replicas. @param inputs  A list a replica, as the trace's.
  /// @return The graph's outputs, a list a replica; results that are undefined in the graph are so here.
  /// @throws Error  kDeadlineExceeded. kInvalidArgument: inputs of other sizes than the trace's.
  std::vector<std::vector<at::Tensor>> run(const std::vector<std::vector<at::Tensor>>& inputs);

  /// The first replica's gradients in the last run, as many as the trace's effects have.
  const std::vector<at::Tensor>& gradients() const { return gradients_; }

  /// Copies what the step has written from the first replica to the program's tensors.
  void pull();
  /// Copies captures to the devices again, after the program has changed them.
  void push();

  const LoweredGraph& lowered() const { return lowered_; }

 private:
  std::shared_ptr<const Trace> trace_;
  pjrt::Client client_;
  CompiledOptions options_;
  LoweredGraph lowered_;
  pjrt::Executable executable_;
  std::vector<std::vector<std::unique_ptr<pjrt::Buffer>>> kept_;  // by replica and parameter
  std::vector<at::Tensor> gradients_;
};

}  // namespace strata::graph::stablehlo
