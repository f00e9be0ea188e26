#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/collective/reduce_op.h"

/// Values of a group's replicas brought together, whichever processes they live in. Every process
/// makes the same calls in the same order, while none of its replicas makes another. `what` is for
/// messages, and must be the same in all processes.
namespace strata::detail {

/// What a user brings to be summed or gathered.
/// @throws Error  kInvalidArgument: undefined, quantized, or of a layout that is neither dense nor
///   sparse COO.
void check_value(std::string_view module, std::string_view call, const at::Tensor& value);

/// How often this thread has met other processes in the calls below.
uint64_t exchanges_of_thread();

/// reduce_in_order over all replicas.
/// @param local  One a replica of this process, `[*shape]`, equal dtype, shape and layout (dense or
///              sparse COO) everywhere; on any device. Undefined: left out; not all of them may be.
/// @return on the device of the first value that is there.
at::Tensor reduce_over_group(const ReplicaGroup& group, const std::vector<at::Tensor>& local,
                             ReduceOp op, const std::string& what);

/// Every replica's tensor, by replica id; those of other processes on the CPU.
/// @param local  One a replica of this process; dense, dtypes and shapes of any kind; undefined
///              ones arrive undefined.
std::vector<at::Tensor> gather_over_group(const ReplicaGroup& group,
                                          const std::vector<at::Tensor>& local,
                                          const std::string& what);

/// What the process of replica 0 brings, on the device of `local`, which has its shape and dtype.
at::Tensor first_of_group(const ReplicaGroup& group, const at::Tensor& local,
                          const std::string& what);

/// What a variable begins with: the processes' programs may draw different values.
at::Tensor initial_value(const ReplicaGroup& group, const at::Tensor& local,
                         const std::string& variable);

}  // namespace strata::detail
