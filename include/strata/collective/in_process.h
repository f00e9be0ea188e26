#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/collective/reduce_op.h"
#include "strata/collective/rendezvous.h"
#include "strata/core/export.h"

namespace strata::collective {

/// Returns `values[0] op values[1] op ...` as a new tensor on the device of `values[0]`. Sums
/// follow the fixed binary tree over the indices (tensor/tree_sum.h) for every dtype and device, so
/// the bits depend on the values alone. The mean of integers is a float (float64 where TensorFlow's
/// is).
///
/// The sum of sparse values (COO) concatenates their entries in the order of replicas; equal
/// indices stay apart. The mean divides each.
///
/// @param values  One per replica, each `[*shape]`, equal shape, dtype and layout; undefined ones
///   are absent.
/// @throws Error  kInvalidArgument: shapes, dtypes or layouts differ; other layouts than dense and
///   COO; minimum and maximum of sparse or complex values; nothing to reduce.
/// Cost: one pass over the values.
STRATA_API at::Tensor reduce_in_order(const std::vector<at::Tensor>& values, ReduceOp op);

/// Reduces `tensor` over all participants' tensors, in place, in their common memory and without a
/// copy (the `in_process` back end). Every participant calls it with its own contiguous tensor.
///
/// @param tensor  `[*shape]`, equal on all participants; on the CPU in one pass by all, else (other
///                devices) by the last to arrive.
/// @throws  as Rendezvous::arrive; a mean of integers is kInvalidArgument.
/// Threads: each participant on its own thread.
/// Cost: one barrier for small tensors, two for larger ones; n reads and n writes of each element
/// in all.
/// Source: tf.distribute.ReplicaContext.all_reduce.
STRATA_API void all_reduce_(Rendezvous& rendezvous, int participant, at::Tensor& tensor,
                            ReduceOp op);

}  // namespace strata::collective
