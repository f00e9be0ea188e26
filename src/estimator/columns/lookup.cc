#include "estimator/columns/lookup.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "graph/host_call.h"
#include "graph/remote/step_runner.h"
#include "strata/core/error.h"

namespace strata::feature_column::detail {
namespace {

void check_ids(const at::Tensor& ids, int64_t buckets, const std::string& column) {
  if (ids.numel() == 0) return;
  const auto most = ids.max().item<int64_t>();
  STRATA_CHECK(most < buckets, kOutOfRange, "[feature_column] '", column, "': got the id ", most,
               "; expected ids below num_buckets = ", buckets,
               ", or a default_value for those beyond it");
}

/// In a graph as a node of it.
void check_ids_of(const Entries& entries, int64_t buckets, const std::string& column) {
  if (!entries.may_exceed) return;
  graph::call_host(
      "strata::check_ids", {entries.ids}, {},
      [buckets, column](const std::vector<at::Tensor>& inputs) {
        check_ids(inputs.at(0), buckets, column);
        return std::vector<at::Tensor>();
      },
      {}, graph::HostInputs::kOfThisRun);
}

at::Tensor without_zeros(const at::Tensor& divisor) {
  return at::where(divisor == 0, at::ones_like(divisor), divisor);
}

}  // namespace

at::Tensor look_up(const at::Tensor& table, const Entries& entries, const Lookup& how) {
  check_ids_of(entries, table.size(0), how.column);
  const at::Tensor& ids = entries.ids;
  if (ids.numel() == 0) return at::zeros({ids.size(0), table.size(1)}, table.options());
  at::Tensor valid = ids >= 0;
  if (entries.weights.defined() && how.combiner != Combiner::kSum) {
    valid = valid.logical_and(entries.weights > 0);
  }
  // In place of a missing id another of the batch is taken, with the weight 0: rows that no id
  // chooses have no gradient, so that optimizers leave them alone. A batch without any id takes row
  // 0.
  const at::Tensor known = at::where(valid, ids, at::full_like(ids, -1));
  const at::Tensor index = at::where(valid, ids, known.max().clamp_min(0));
  const bool sparse = !graph::records_for_compiler();  // which knows dense tensors alone
  at::Tensor rows =
      at::embedding(table, index, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, sparse);
  if (how.max_norm) {
    const at::Tensor norm = at::linalg_vector_norm(rows, 2, {-1}, /*keepdim=*/true);
    rows = rows * at::where(norm > *how.max_norm, *how.max_norm / without_zeros(norm),
                            at::ones_like(norm));
  }
  at::Tensor weights = valid.to(table.scalar_type());
  if (entries.weights.defined()) weights = weights * entries.weights.to(table.scalar_type());
  const at::Tensor sum = (rows * weights.unsqueeze(-1)).sum(1);
  if (how.combiner == Combiner::kMean) return sum / without_zeros(weights.sum(1, true));
  if (how.combiner == Combiner::kSqrtn) {
    return sum / without_zeros((weights * weights).sum(1, true).sqrt());
  }
  return sum;
}

}  // namespace strata::feature_column::detail
