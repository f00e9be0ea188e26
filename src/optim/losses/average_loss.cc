#include "strata/optim/losses.h"

#include <ATen/TensorOperators.h>

#include "optim/step/scaled_sum.h"
#include "strata/core/error.h"
#include "strata/runtime/replica_context.h"

namespace strata {
namespace {

int64_t num_replicas(std::string_view call) {
  const ReplicaContext* context = get_replica_context();
  STRATA_CHECK(
      context, kFailedPrecondition, "[losses] ", call,
      ": called in cross-replica context; expected a replica function, which knows its part of "
      "the batch; call it inside strategy.run(...)");
  return context->num_replicas_in_sync();
}

}  // namespace

at::Tensor compute_average_loss(const at::Tensor& per_example, const AverageLossOptions& options) {
  const int64_t replicas = num_replicas("compute_average_loss");
  STRATA_CHECK(
      per_example.dim() > 0, kInvalidArgument,
      "[losses] compute_average_loss: got a scalar; expected one loss an example, [batch, ...]; do "
      "not reduce it before");
  const int64_t size = options.global_batch_size.value_or(per_example.size(0) * replicas);
  STRATA_CHECK(size >= 0, kInvalidArgument,
               "[losses] compute_average_loss: got a global_batch_size of ", size,
               "; expected the number of examples on all replicas together");
  const at::Tensor weighted =
      options.sample_weight.defined()
          ? per_example * options.sample_weight.to(per_example.scalar_type())
          : per_example;
  // An empty batch has loss 0, with a gradient of zeros, not 0 / 0.
  if (size == 0) return weighted.sum().mul(0);
  return losses::has_scaled_sum(weighted) ? losses::scaled_sum(weighted, static_cast<double>(size))
                                          : weighted.sum().div(static_cast<double>(size));
}

at::Tensor scale_regularization_loss(const at::Tensor& loss) {
  return loss.sum().div(static_cast<double>(num_replicas("scale_regularization_loss")));
}

}  // namespace strata
