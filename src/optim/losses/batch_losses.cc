// Losses over more than one row at a time: of whole batches, of pairs, of sequences.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "optim/shapes.h"
#include "strata/core/error.h"
#include "strata/optim/losses.h"
#include "strata/runtime/replica_context.h"

namespace strata::losses {
namespace {

using at::Tensor;

constexpr double kEpsilon = 1e-7;  // keras.config.epsilon()

const ReplicaContext* among_replicas() {
  const ReplicaContext* context = get_replica_context();
  return context != nullptr && context->num_replicas_in_sync() > 1 ? context : nullptr;
}

void check_floating(const char* function, const Tensor& y_pred) {
  STRATA_CHECK(y_pred.is_floating_point(), kInvalidArgument, "[losses] ", function,
               ": got y_pred of dtype ", y_pred.scalar_type(), "; expected a floating dtype");
}

/// What dice and tversky are made of, over `axis`.
struct Overlap {
  Tensor both, y_true, y_pred;
};

Overlap overlap(const char* function, const Tensor& truth, const Tensor& prediction,
                const std::vector<int64_t>& axis) {
  check_floating(function, prediction);
  Tensor y_true = truth.to(prediction.scalar_type()), y_pred = prediction;
  detail::match_shapes("losses", function, y_true, y_pred);
  for (const int64_t each : axis) {
    STRATA_CHECK(each >= -y_pred.dim() && each < y_pred.dim(), kInvalidArgument, "[losses] ",
                 function, ": got axis ", each, " for y_pred of shape ", y_pred.sizes());
  }
  const auto over_axis = [&](const Tensor& x) { return axis.empty() ? x.sum() : x.sum(axis); };
  Overlap sums{over_axis(y_true * y_pred), over_axis(y_true), over_axis(y_pred)};
  const bool over_batch = axis.empty() || std::any_of(axis.begin(), axis.end(), [&](int64_t each) {
                            return each == 0 || each == -y_pred.dim();
                          });
  const ReplicaContext* replica = over_batch ? among_replicas() : nullptr;
  if (replica != nullptr) {
    const Tensor all = replica->all_reduce(
        ReduceOp::kSum, at::stack({sums.both, sums.y_true.expand_as(sums.both), sums.y_pred}));
    sums = {all[0], all[1], all[2]};
  }
  return sums;
}

/// The embeddings that a batch is compared with, with their labels, and which of them are the
/// batch's own.
struct References {
  Tensor labels, embeddings, is_self;
};

References references(const Tensor& labels, const Tensor& embeddings) {
  const Tensor row = at::arange(labels.numel(), labels.options());
  const ReplicaContext* replica = among_replicas();
  if (replica == nullptr) return {labels, embeddings, row.unsqueeze(1) == row.unsqueeze(0)};
  const int64_t id = replica->replica_id_in_sync_group();
  const Tensor all =
      replica->all_gather(at::stack({labels, row, at::full_like(row, id)}, 1), /*axis=*/0);
  const Tensor is_self = (row.unsqueeze(1) == all.select(1, 1).unsqueeze(0))
                             .logical_and_((all.select(1, 2) == id).unsqueeze(0));
  return {all.select(1, 0), replica->all_gather(embeddings, /*axis=*/0), is_self};
}

Tensor not_negative(const Tensor& x) { return x.masked_fill(x < 0, 0); }

/// log(sum(exp(x))) over the pairs in `mask`; without pairs, far below everything, finite, so
/// that gradients are too.
Tensor log_sum_exp(const Tensor& x, const Tensor& mask) {
  return at::logsumexp(x.masked_fill(mask.logical_not(), -1e30), {1});
}

}  // namespace

Tensor dice(const Tensor& y_true, const Tensor& y_pred, const std::vector<int64_t>& axis) {
  const Overlap sums = overlap("dice", y_true, y_pred, axis);
  return 1 - 2 * sums.both / (sums.y_true + sums.y_pred + kEpsilon);
}

Tensor tversky(const Tensor& y_true, const Tensor& y_pred, const TverskyOptions& options) {
  const Overlap sums = overlap("tversky", y_true, y_pred, options.axis);
  const Tensor missed = (sums.y_true - sums.both) * options.alpha;
  const Tensor wrong = (sums.y_pred - sums.both) * options.beta;
  return 1 - sums.both / (sums.both + missed + wrong + kEpsilon);
}

Tensor circle(const Tensor& y_true, const Tensor& y_pred, const CircleOptions& options) {
  check_floating("circle", y_pred);
  STRATA_CHECK(y_pred.dim() == 2 && y_true.numel() == y_pred.size(0) && y_true.dim() <= 2,
               kInvalidArgument, "[losses] circle: got y_true of shape ", y_true.sizes(),
               " and y_pred of shape ", y_pred.sizes(),
               "; expected class numbers [batch] and embeddings [batch, n]");
  const Tensor labels = y_true.reshape({-1}).to(at::kLong);
  const References all = references(labels, y_pred);
  const Tensor same = labels.unsqueeze(1) == all.labels.unsqueeze(0);
  const Tensor negative = same.logical_not();
  const Tensor positive =
      options.remove_diagonal ? same.logical_and(all.is_self.logical_not()) : same;

  const double gamma = options.gamma, margin = options.margin;
  const Tensor distance = not_negative(1 - y_pred.matmul(all.embeddings.t()));
  const Tensor pull = not_negative(margin + distance) * (margin - distance) * -gamma;
  const Tensor push = not_negative(1 + margin - distance) * (1 - margin - distance) * gamma;
  return at::softplus(log_sum_exp(pull, positive) + log_sum_exp(push, negative), /*beta=*/1,
                      /*threshold=*/40);
}

Tensor ctc(const Tensor& y_true, const Tensor& y_pred) {
  check_floating("ctc", y_pred);
  STRATA_CHECK(y_true.dim() == 2 && y_pred.dim() == 3 && y_true.size(0) == y_pred.size(0),
               kInvalidArgument, "[losses] ctc: got y_true of shape ", y_true.sizes(),
               " and y_pred of shape ", y_pred.sizes(),
               "; expected class numbers [batch, length] and logits [batch, time, classes]");
  if (y_pred.size(0) == 0) return y_pred.sum(at::IntArrayRef{1, 2});
  const Tensor labels = y_true.to(at::kLong);
  const Tensor log_probabilities = at::log_softmax(y_pred, -1).transpose(0, 1);
  const Tensor times = at::full_like(labels.select(1, 0), y_pred.size(1));
  return at::ctc_loss(log_probabilities, labels, times, (labels != 0).sum(1), /*blank=*/0,
                      at::Reduction::None);
}

Tensor categorical_generalized_cross_entropy(const Tensor& y_true, const Tensor& y_pred, double q) {
  constexpr auto kWhere = "[losses] categorical_generalized_cross_entropy: ";
  check_floating("categorical_generalized_cross_entropy", y_pred);
  STRATA_CHECK(q > 0 && q < 1, kInvalidArgument, kWhere, "got q ", q,
               "; expected a value in (0, 1)");
  Tensor labels = y_true.to(at::kLong);
  if (labels.dim() == y_pred.dim() && labels.size(-1) == 1) labels = labels.squeeze(-1);
  STRATA_CHECK(y_pred.dim() >= 1 && y_pred.size(-1) > 0 &&
                   labels.sizes() == y_pred.sizes().slice(0, static_cast<size_t>(y_pred.dim() - 1)),
               kInvalidArgument, kWhere, "got y_true of shape ", y_true.sizes(),
               " and y_pred of shape ", y_pred.sizes(),
               "; expected one class number for each row of y_pred");
  const Tensor p = y_pred.gather(-1, labels.unsqueeze(-1)).squeeze(-1);
  return (1 - p.pow(q)) / q;
}

}  // namespace strata::losses
