#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/direct_kernels.h"
#include "graph/tracer.h"

namespace strata::graph {

/// How a run does a node.
enum class Way {
  kView,      ///< Sets where a tensor begins that is kept from run to run.
  kDirect,    ///< By a direct kernel.
  kInto,      ///< By the operator's form that writes into memory that its result has already.
  kOperator,  ///< Calls it.
  kHost,      ///< Calls the host function.
};

/// What runs of a graph have in common: how each node is done, and where small results lie.
struct RunPlan {
  struct Step {
    Way way = Way::kOperator;
    DirectKernel kernel = nullptr;                           ///< Of kDirect.
    std::optional<c10::OperatorHandle> into = std::nullopt;  ///< Of kInto.
  };
  std::vector<Step> steps;  ///< By node.
  /// Memory of a device that all runs share.
  struct Block {
    c10::Device device;
    int64_t bytes = 0;
  };
  /// By value, for the first value of a memory: its place in its device's block, in bytes; -1: it is
  /// elsewhere. What the caller gets, or a host function keeps, is never there, nor what is large.
  std::vector<int64_t> places;
  std::vector<Block> blocks;
};

/// Decides it for the calling thread as it is set up, which has to be set up so in runs.
/// @param no_direct  By node: direct kernels did not take it. Empty: they take all.
RunPlan plan_run(const Trace& trace, const std::vector<bool>& no_direct);

}  // namespace strata::graph
