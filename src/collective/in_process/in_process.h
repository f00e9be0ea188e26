#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "collective/in_process/rendezvous.h"
#include "strata/collective/reduce_op.h"
#include "strata/core/export.h"

namespace strata::collective {

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
