#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "strata/core/export.h"
#include "strata/graph/graph.h"

namespace strata::graph {

/// True while this thread's step is recorded.
STRATA_API bool tracing();

/// What a host function returns, in a trace: a contiguous tensor.
struct HostResult {
  std::vector<int64_t> sizes;
  at::ScalarType dtype;
  c10::Device device = c10::kCPU;
};

/// What a host function does with its inputs.
enum class HostInputs {
  kMayBeHeld,  ///< It, or what it calls, may hold them when it has returned, for as long as it likes.
  kOfThisRun,  ///< None is held beyond the run that the call is part of.
};

/// Calls `function(inputs)`; in a trace records it as one node, which every run calls again on the same
/// replica. For work that meets other threads or processes, or that counts, and so cannot be a list
/// of operators.
/// @param numbers  That `function` has from the program and that have to be the same in every call.
/// @param subject  The object that it is a call of, if another process can make one like it.
STRATA_API std::vector<at::Tensor> call_host(std::string_view name,
                                             const std::vector<at::Tensor>& inputs,
                                             const std::vector<HostResult>& results,
                                             const HostFunction& function,
                                             const std::vector<double>& numbers = {},
                                             HostInputs held = HostInputs::kMayBeHeld,
                                             std::weak_ptr<HostSubject> subject = {});

/// @throws Error  kFailedPrecondition, in a trace: `what` cannot be recorded, and `hint`.
STRATA_API void refuse_in_trace(std::string_view what, std::string_view hint);

/// True in a trace whose runs may meet replicas with other sizes than now: `fit`'s. What a node then has
/// from others must not depend on their sizes.
STRATA_API bool others_may_change();

/// What tells apart places where one function has other captures: the replicas of a strategy. Outside
/// of all it is 0.
STRATA_API uint64_t place();

/// A number that no place has had.
STRATA_API uint64_t new_place();

/// Makes `place` this thread's while it lives.
class STRATA_API PlaceGuard {
 public:
  explicit PlaceGuard(uint64_t place);
  ~PlaceGuard();
  PlaceGuard(const PlaceGuard&) = delete;
  PlaceGuard& operator=(const PlaceGuard&) = delete;

 private:
  uint64_t before_;
};

}  // namespace strata::graph
