// strata::attention on CPUs: tiles of queries and keys, whose scores stay in the second-level
// cache. Parts of the result are independent: a block of queries forward, a head of keys backward.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/attention_kernels.h"
#include "kernels/attention_operator.h"
#include "kernels/attention_tiles.h"
#include "kernels/dispatch_key.h"
#include "kernels/kernel_threads.h"
#include "kernels/layer_kernels.h"
#include "kernels/optional_tensor.h"
#include "kernels/products.h"
#include "kernels/registration.h"
#include "kernels/scratch.h"

namespace strata::kernels {

const AttentionKernels& attention_kernels() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), attention_kernels);
}

namespace {

using namespace attention_tiles;  // NOLINT(google-build-using-namespace)

/// c[m, n] (+)= a[m, k] b[k, n]
void multiply(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b, float* c,
              int64_t c_stride, bool add, Workspace& work) {
  MatmulProblem product{m, n, k, a, b, nullptr, c, c_stride};
  product.add = add;
  multiply_dense_here(product, work.products);
}

MatrixView rows_of(const float* data, int64_t stride) { return {data, stride, 1}; }
MatrixView transposed_rows_of(const float* data, int64_t stride) { return {data, 1, stride}; }

/// Fetches the first rows of a head into the second-level cache while the one before is computed:
/// the processor's own prefetchers do not follow short rows that are far apart.
void fetch_ahead(const HeadsView<const float>& x, const Block& block, int64_t rows,
                 int64_t columns) {
  constexpr int64_t kLine = 16;
  for (int64_t r = 0; r < std::min(rows, kTileKeys); ++r) {
    const float* const row = x.at(block.batch, block.head, block.first + r);
    for (int64_t c = 0; c < columns; c += kLine) __builtin_prefetch(row + c, 0, 2);
  }
}

/// sum over keys of their values / keys
void mean_value(const Problem& problem, const Block& block, float* mean) {
  layer_kernels().column_sums(problem.value.at(block.batch, block.head / problem.shared, 0),
                              problem.keys, problem.value_depth, problem.value.row, mean);
  const float factor = 1 / static_cast<float>(problem.keys);
  for (int64_t c = 0; c < problem.value_depth; ++c) mean[c] *= factor;
}

void forward_block(const Problem& problem, const Block& block, bool mean_of_unseen,
                   const HeadsView<float>& output, float* logsumexp, Workspace& work) {
  const AttentionKernels& kernels = attention_kernels();
  const int64_t key_head = block.head / problem.shared;
  float* const out = output.at(block.batch, block.head, block.first);
  work.largest.fill(-std::numeric_limits<float>::infinity());
  work.sum.fill(0);
  bool add = false;
  for_tiles(problem, block, work, [&](int64_t first, const ScoreTile& tile) {
    multiply(tile.rows, tile.columns, problem.depth,
             rows_of(problem.query.at(block.batch, block.head, block.first), problem.query.row),
             transposed_rows_of(problem.key.at(block.batch, key_head, first), problem.key.row),
             tile.scores, tile.stride, /*add=*/false, work);
    kernels.softmax(tile, work.running());
    if (add) {
      kernels.scale_rows(out, output.row, tile.rows, problem.value_depth, work.factor.data());
    }
    multiply(tile.rows, problem.value_depth, tile.columns, rows_of(tile.scores, tile.stride),
             rows_of(problem.value.at(block.batch, key_head, first), problem.value.row), out,
             output.row, add, work);
    add = true;
  });
  const auto rows = static_cast<size_t>(block.rows);
  const bool some_unseeing = std::count(work.sum.begin(), work.sum.begin() + rows, 0.0F) != 0;
  if (some_unseeing && mean_of_unseen) mean_value(problem, block, work.row.data());
  kernels.finish(out, output.row, block.rows, problem.value_depth, work.running(),
                 mean_of_unseen ? work.row.data() : nullptr, logsumexp);
}

/// The i-th of all blocks of all heads.
Block block_of(const Problem& problem, int64_t i) {
  const int64_t head = i / problem.query_blocks();
  const int64_t first = i % problem.query_blocks() * problem.tile_queries;
  return {head / problem.heads, head % problem.heads, first,
          std::min(problem.tile_queries, problem.queries - first)};
}

void fetch_block(const Problem& problem, const Block& block) {
  fetch_ahead(problem.query, block, block.rows, problem.depth);
  if (block.first > 0 || block.head % problem.shared != 0) return;
  const Block keys = {block.batch, block.head / problem.shared, 0, 0};
  fetch_ahead(problem.key, keys, problem.keys, problem.depth);
  fetch_ahead(problem.value, keys, problem.keys, problem.value_depth);
}

std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& query, const at::Tensor& key,
                                           const at::Tensor& value, const AttentionMask& mask,
                                           double scale, bool mean_of_unseen) {
  const Problem problem = problem_of(query, key, value, mask, scale);
  at::Tensor output =
      empty_float({problem.batches, problem.queries, problem.heads, problem.value_depth})
          .transpose(1, 2);
  at::Tensor logsumexp = empty_float({problem.batches, problem.heads, problem.queries});
  const HeadsView<float> out = mutable_view_of(output);
  float* const sums = logsumexp.mutable_data_ptr<float>();
  const int64_t work_of_block =
      problem.tile_queries * problem.keys * (problem.depth + problem.value_depth);
  parallel_for(0, problem.batches * problem.heads * problem.query_blocks(),
               std::max<int64_t>(1, kPartMultiplications / work_of_block),
               [&](int64_t begin, int64_t end) {
                 Workspace work(problem);
                 for (int64_t i = begin; i < end; ++i) {
                   if (i + 1 < end) fetch_block(problem, block_of(problem, i + 1));
                   const Block block = block_of(problem, i);
                   const int64_t at = block.batch * problem.heads + block.head;
                   forward_block(problem, block, mean_of_unseen, out,
                                 sums + at * problem.queries + block.first, work);
                 }
               });
  return {std::move(output), std::move(logsumexp)};
}

struct Gradients {
  HeadsView<const float> gradient, output;
  const float* logsumexp;  // [batch, heads, queries]
  HeadsView<float> query, key, value;
};

void fill_zeros(const HeadsView<float>& x, int64_t batch, int64_t head, int64_t rows,
                int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(x.at(batch, head, r), columns, 0.0F);
}

/// @param of_scores  A second tile.
void backward_block(const Problem& problem, const Block& block, const Gradients& arrays,
                    float* of_scores, Workspace& work) {
  const AttentionKernels& kernels = attention_kernels();
  const int64_t batch = block.batch;
  const int64_t head = block.head;
  const int64_t key_head = head / problem.shared;
  const float* const query = problem.query.at(batch, head, block.first);
  const float* const gradient = arrays.gradient.at(batch, head, block.first);
  const float* const logsumexp =
      arrays.logsumexp + (batch * problem.heads + head) * problem.queries + block.first;
  const KeyRange keys = keys_of(problem, block);
  // In one tile it is computed there: its rounding errors are smaller, as those of a softmax alone.
  const float* delta = nullptr;
  if (keys.end - keys.begin > kTileKeys) {
    kernels.row_dots(gradient, arrays.gradient.row, arrays.output.at(batch, head, block.first),
                     arrays.output.row, block.rows, problem.value_depth, work.delta.data());
    delta = work.delta.data();
  }
  for_tiles(problem, block, work, [&](int64_t first, const ScoreTile& tile) {
    const float* const key = problem.key.at(batch, key_head, first);
    multiply(tile.rows, tile.columns, problem.depth, rows_of(query, problem.query.row),
             transposed_rows_of(key, problem.key.row), tile.scores, tile.stride, false, work);
    multiply(tile.rows, tile.columns, problem.value_depth, rows_of(gradient, arrays.gradient.row),
             transposed_rows_of(problem.value.at(batch, key_head, first), problem.value.row),
             of_scores, tile.stride, false, work);
    kernels.softmax_backward(tile, logsumexp, delta, of_scores);
    multiply(tile.columns, problem.value_depth, tile.rows,
             transposed_rows_of(tile.scores, tile.stride), rows_of(gradient, arrays.gradient.row),
             arrays.value.at(batch, key_head, first), arrays.value.row, true, work);
    multiply(tile.columns, problem.depth, tile.rows, transposed_rows_of(of_scores, tile.stride),
             rows_of(query, problem.query.row), arrays.key.at(batch, key_head, first),
             arrays.key.row, true, work);
    multiply(tile.rows, problem.depth, tile.columns, rows_of(of_scores, tile.stride),
             rows_of(key, problem.key.row), arrays.query.at(batch, head, block.first),
             arrays.query.row, true, work);
  });
}

/// A head of keys and values with the heads of queries that share it.
void backward_head(const Problem& problem, int64_t batch, int64_t key_head, bool mean_of_unseen,
                   const Gradients& arrays, float* of_scores, Workspace& work) {
  const AttentionKernels& kernels = attention_kernels();
  fill_zeros(arrays.key, batch, key_head, problem.keys, problem.depth);
  fill_zeros(arrays.value, batch, key_head, problem.keys, problem.value_depth);
  float* const of_unseeing = work.row.data();
  std::fill_n(of_unseeing, problem.value_depth, 0.0F);
  bool some_unseeing = false;
  for (int64_t head = key_head * problem.shared; head < (key_head + 1) * problem.shared; ++head) {
    fill_zeros(arrays.query, batch, head, problem.queries, problem.depth);
    for (int64_t first = 0; first < problem.queries; first += problem.tile_queries) {
      const int64_t rows = std::min(problem.tile_queries, problem.queries - first);
      backward_block(problem, {batch, head, first, rows}, arrays, of_scores, work);
    }
    const float* const logsumexp =
        arrays.logsumexp + (batch * problem.heads + head) * problem.queries;
    for (int64_t i = 0; mean_of_unseen && i < problem.queries; ++i) {
      if (logsumexp[i] != std::numeric_limits<float>::infinity()) continue;
      some_unseeing = true;
      kernels.add_to_rows(of_unseeing, 0, 1, problem.value_depth,
                          arrays.gradient.at(batch, head, i), 1);
    }
  }
  if (some_unseeing) {
    kernels.add_to_rows(arrays.value.at(batch, key_head, 0), arrays.value.row, problem.keys,
                        problem.value_depth, of_unseeing, 1 / static_cast<float>(problem.keys));
  }
}

void fetch_head(const Problem& problem, int64_t batch, int64_t key_head, const Gradients& arrays) {
  const Block queries = {batch, key_head * problem.shared, 0, 0};
  fetch_ahead(problem.query, queries, problem.queries, problem.depth);
  fetch_ahead(arrays.gradient, queries, problem.queries, problem.value_depth);
  const Block keys = {batch, key_head, 0, 0};
  fetch_ahead(problem.key, keys, problem.keys, problem.depth);
  fetch_ahead(problem.value, keys, problem.keys, problem.value_depth);
}

at::Tensor with_contiguous_rows(const at::Tensor& x) {
  return x.stride(3) == 1 || x.size(3) == 1 ? x : x.contiguous();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& given, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& given_output, const at::Tensor& given_logsumexp,
    const AttentionMask& mask, double scale, bool mean_of_unseen) {
  const at::Tensor gradient = with_contiguous_rows(given);
  const at::Tensor output = with_contiguous_rows(given_output);
  const at::Tensor logsumexp = given_logsumexp.contiguous();
  const Problem problem = problem_of(query, key, value, mask, scale);
  at::Tensor of_query = at::empty_like(query);
  at::Tensor of_key = at::empty_like(key);
  at::Tensor of_value = at::empty_like(value);
  const Gradients arrays = {.gradient = view_of(gradient),
                            .output = view_of(output),
                            .logsumexp = logsumexp.const_data_ptr<float>(),
                            .query = mutable_view_of(of_query),
                            .key = mutable_view_of(of_key),
                            .value = mutable_view_of(of_value)};
  const int64_t heads = problem.key_heads();
  const int64_t work_of_head = problem.shared * problem.queries * problem.keys *
                               (3 * problem.depth + 2 * problem.value_depth);
  const int64_t grain = std::max<int64_t>(1, kPartMultiplications / work_of_head);
  parallel_for(0, problem.batches * heads, grain, [&](int64_t begin, int64_t end) {
    Workspace work(problem);
    const Scratch of_scores(kTileQueries * kTileKeys);
    for (int64_t i = begin; i < end; ++i) {
      if (i + 1 < end) fetch_head(problem, (i + 1) / heads, (i + 1) % heads, arrays);
      backward_head(problem, i / heads, i % heads, mean_of_unseen, arrays, of_scores.data(), work);
    }
  });
  return {std::move(of_query), std::move(of_key), std::move(of_value)};
}

std::tuple<at::Tensor, at::Tensor> attention_cpu(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const OptionalTensor& mask, const OptionalTensor& query_mask, const OptionalTensor& key_mask,
    bool causal, int64_t window, double scale, bool mean_of_unseen) {
  const AttentionMask all = {mask, query_mask, key_mask, causal, window};
  if (!attention_kernels_apply(query, key, value, all)) {
    return attention_of_aten(query, key, value, mask, query_mask, key_mask, causal, window, scale,
                             mean_of_unseen);
  }
  return forward(query, key, value, all, scale, mean_of_unseen);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(
    const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp,
    const OptionalTensor& mask, const OptionalTensor& query_mask, const OptionalTensor& key_mask,
    bool causal, int64_t window, double scale, bool mean_of_unseen) {
  const AttentionMask all = {mask, query_mask, key_mask, causal, window};
  if (!attention_kernels_apply(query, key, value, all) || !is_cpu_float(gradient)) {
    return attention_backward_of_aten(gradient, query, key, value, output, logsumexp, mask,
                                      query_mask, key_mask, causal, window, scale, mean_of_unseen);
  }
  return backward(gradient, query, key, value, output, logsumexp, all, scale, mean_of_unseen);
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("attention", attention_cpu);
  library.impl("attention_backward", attention_backward_cpu);
}

double scale_of(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}

/// What at::scaled_dot_product_attention runs.
std::tuple<at::Tensor, at::Tensor> flash_attention(c10::DispatchKeySet keys,
                                                   const at::Tensor& query, const at::Tensor& key,
                                                   const at::Tensor& value, double dropout,
                                                   bool causal, const OptionalTensor& mask,
                                                   std::optional<double> scale) {
  if (dropout == 0 && attention_kernels_apply(query, key, value, {.scores = mask})) {
    return call_attention(query, key, value, mask, {}, {}, causal, 0, scale_of(query, scale),
                          /*mean_of_unseen=*/false);
  }
  return at::_ops::_scaled_dot_product_flash_attention_for_cpu::redispatch(
      keys & kBelowReplicaKey, query, key, value, dropout, causal, mask, scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_attention_backward(
    c10::DispatchKeySet keys, const at::Tensor& gradient, const at::Tensor& query,
    const at::Tensor& key, const at::Tensor& value, const at::Tensor& output,
    const at::Tensor& logsumexp, double dropout, bool causal, const OptionalTensor& saved_mask,
    std::optional<double> scale) {
  // Autograd saves none as a tensor that is undefined.
  const OptionalTensor mask = saved_mask && saved_mask->defined() ? saved_mask : std::nullopt;
  if (dropout == 0 && is_cpu_float(gradient) &&
      attention_kernels_apply(query, key, value, {.scores = mask})) {
    return call_attention_backward(gradient, query, key, value, output, logsumexp, mask, {}, {},
                                   causal, 0, scale_of(query, scale), /*mean_of_unseen=*/false);
  }
  return at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward::redispatch(
      keys & kBelowReplicaKey, gradient, query, key, value, output, logsumexp, dropout, causal,
      mask, scale);
}

bool is_plain_heads(const at::Tensor& x) {
  return is_cpu_float(x) && x.dim() == 4 && x.numel() > 0 && (x.stride(3) == 1 || x.size(3) == 1);
}

bool broadcasts(const OptionalTensor& tensor, at::IntArrayRef sizes) {
  if (!tensor) return true;
  const int64_t extra = static_cast<int64_t>(sizes.size()) - tensor->dim();
  if (extra < 0 || tensor->layout() != at::kStrided || !tensor->is_cpu()) return false;
  for (int64_t d = 0; d < tensor->dim(); ++d) {
    const int64_t size = tensor->size(d);
    if (size != 1 && size != sizes[static_cast<size_t>(d + extra)]) return false;
  }
  return true;
}

bool is_boolean(const OptionalTensor& tensor) {
  return !tensor || tensor->scalar_type() == at::kBool;
}

}  // namespace

bool attention_kernels_apply(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const AttentionMask& mask) {
  if (!runs_here(KernelClass::kAttention) || !is_plain_heads(query) || !is_plain_heads(key) ||
      !is_plain_heads(value)) {
    return false;
  }
  const int64_t batch = query.size(0);
  const int64_t shared = key.size(1);
  const bool fits = key.size(0) == batch && value.size(0) == batch && value.size(1) == shared &&
                    query.size(1) % shared == 0 && key.size(2) == value.size(2) &&
                    key.size(3) == query.size(3);
  return fits && (is_boolean(mask.scores) || mask.scores->scalar_type() == at::kFloat) &&
         is_boolean(mask.queries) && is_boolean(mask.keys) &&
         broadcasts(mask.scores, {batch, query.size(1), query.size(2), key.size(2)}) &&
         broadcasts(mask.queries, {batch, query.size(2)}) &&
         broadcasts(mask.keys, {batch, key.size(2)});
}

void register_attention(torch::Library& library) {
  library.impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(flash_attention));
  library.impl("_scaled_dot_product_flash_attention_for_cpu_backward",
               TORCH_FN(flash_attention_backward));
}

}  // namespace strata::kernels
