// strata::attention on CPUs: tiles of keys and queries, whose scores stay in the second-level
// cache. Parts of the result are independent: a block of queries forward, a head of keys backward.
//
// Queries lie along the vectors of a tile of scores, [keys, queries]. So the products behind it read
// it as it lies, by rows or by columns, and only a block's queries are transposed, once for all
// their tiles. With P the weights and S the scores:
//   forward   S^T = K Q^T;  O += P V
//   backward  S^T = K Q^T;  dP^T = V dO^T;  dV += P^T dO;  dK += dS^T Q;  dQ += dS K
#include <ATen/EmptyTensor.h>
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

#include "kernels/attention_heads.h"
#include "kernels/attention_kernels.h"
#include "kernels/attention_operator.h"
#include "kernels/attention_products.h"
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
const AttentionProducts& attention_products() {
  return STRATA_KERNELS_FOR(best_cpu_isa(), attention_products);
}

namespace {

using namespace attention_tiles;  // NOLINT(google-build-using-namespace)

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

/// The block's queries times the scale, as the products read them.
void pack_queries(const Problem& problem, const Block& block, Workspace& work) {
  const AttentionProducts& products = attention_products();
  const int64_t stride = padded(problem.depth);
  products.copy_rows(problem.query.at(block.batch, block.head, block.first), problem.query.row,
                     block.rows, problem.depth, problem.scale, work.query_rows.data(), stride);
  products.transpose_padded(work.query_rows.data(), stride, block.rows, problem.depth,
                            work.query_columns.data(), problem.tile_queries);
}

/// A tile's product: its keys times the block's queries.
PanelProduct product_of_keys(const ScoreTile& tile, int64_t depth, const float* keys,
                             int64_t keys_stride, const float* queries, float* scores) {
  return {.rows = tile.keys,
          .columns = tile.lanes,
          .k = depth,
          .p = {keys, keys_stride, 1},
          .q = queries,
          .q_stride = tile.lanes,
          .d = scores,
          .d_stride = tile.lanes};
}

/// out[queries, columns] (+)= the tile's weights, or their gradients, times its keys or values.
void add_to_queries(const ScoreTile& tile, int64_t queries, const float* weights, const float* keys,
                    int64_t keys_stride, int64_t columns, float* out, int64_t out_stride,
                    const float* factor, bool add, Workspace& work) {
  const bool aligned =
      reinterpret_cast<uintptr_t>(keys) % 64 == 0 && keys_stride % 16 == 0 && columns % 16 == 0;
  if (!aligned) {
    attention_products().copy_rows(keys, keys_stride, tile.keys, columns, 1, work.panel.data(),
                                   padded(columns));
    keys = work.panel.data();
    keys_stride = padded(columns);
  }
  attention_products().multiply({.rows = queries,
                                 .columns = columns,
                                 .k = tile.keys,
                                 .p = {weights, 1, tile.lanes},
                                 .q = keys,
                                 .q_stride = keys_stride,
                                 .d = out,
                                 .d_stride = out_stride,
                                 .add = add,
                                 .factor = add ? factor : nullptr});
}

void forward_block(const Problem& problem, const Block& block, bool mean_of_unseen,
                   const HeadsView<float>& output, float* logsumexp, Workspace& work) {
  const AttentionKernels& kernels = attention_kernels();
  const AttentionProducts& products = attention_products();
  const int64_t key_head = block.head / problem.shared;
  float* const out = output.at(block.batch, block.head, block.first);
  work.largest.fill(-std::numeric_limits<float>::infinity());
  work.sum.fill(0);
  pack_queries(problem, block, work);
  bool add = false;
  for_tiles(problem, block, work, [&](int64_t first, const ScoreTile& tile) {
    products.multiply(product_of_keys(tile, problem.depth,
                                      problem.key.at(block.batch, key_head, first), problem.key.row,
                                      work.query_columns.data(), tile.scores));
    kernels.softmax(tile, work.running());
    add_to_queries(tile, block.rows, tile.scores, problem.value.at(block.batch, key_head, first),
                   problem.value.row, problem.value_depth, out, output.row, work.factor.data(), add,
                   work);
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
  const at::Tensor by_queries = at::detail::empty_cpu(
      {problem.batches, problem.queries, problem.heads, problem.value_depth}, query.scalar_type());
  at::Tensor output = by_queries.transpose(1, 2);
  at::Tensor logsumexp = empty_float({problem.batches, problem.heads, problem.queries});
  float* const sums = logsumexp.mutable_data_ptr<float>();
  const bool in_place = is_cpu_float(query);
  const int64_t work_of_block =
      problem.tile_queries * problem.keys * (problem.depth + problem.value_depth);
  parallel_for(0, problem.batches * problem.heads * problem.query_blocks(),
               std::max<int64_t>(1, kPartMultiplications / work_of_block),
               [&](int64_t begin, int64_t end) {
                 Workspace work(problem);
                 HeadsIn queries(query, 1), keys(key, 1), values(value, 1);
                 HeadsOut results(output, 1);
                 Problem part = problem;
                 for (int64_t i = begin; i < end; ++i) {
                   const Block block = block_of(problem, i);
                   const int64_t at = block.batch * problem.heads + block.head;
                   part.query = queries.take(block.batch, block.head);
                   part.key = keys.take(block.batch, block.head / problem.shared);
                   part.value = values.take(block.batch, block.head / problem.shared);
                   if (in_place && i + 1 < end) fetch_block(part, block_of(problem, i + 1));
                   forward_block(part, block, mean_of_unseen, results.take(block.head),
                                 sums + at * problem.queries + block.first, work);
                   results.put(block.batch, block.first, block.rows);
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

/// A thread's memory of the backward pass, beside a Workspace.
struct BackwardWorkspace {
  explicit BackwardWorkspace(const Problem& problem)
      : of_scores(problem.tile_queries * kTileKeys),
        gradient_rows(problem.tile_queries * padded(problem.value_depth)),
        gradient_columns(problem.value_depth * problem.tile_queries) {}

  Scratch of_scores;         // [keys, lanes]
  Scratch gradient_rows;     // [lanes, value_depth]
  Scratch gradient_columns;  // [value_depth, lanes]
};

void backward_block(const Problem& problem, const Block& block, const Gradients& arrays,
                    Workspace& work, BackwardWorkspace& more) {
  const AttentionKernels& kernels = attention_kernels();
  const AttentionProducts& products = attention_products();
  const int64_t batch = block.batch;
  const int64_t head = block.head;
  const int64_t key_head = head / problem.shared;
  const int64_t lanes = problem.tile_queries;
  const float* const gradient = arrays.gradient.at(batch, head, block.first);
  const KeyRange keys = keys_of(problem, block);
  // What is behind the last query has weights of zero.
  work.logsumexp.fill(std::numeric_limits<float>::infinity());
  std::copy_n(arrays.logsumexp + (batch * problem.heads + head) * problem.queries + block.first,
              block.rows, work.logsumexp.begin());
  // In one tile it is computed there: its rounding errors are smaller, as those of a softmax alone.
  const float* delta = nullptr;
  if (keys.end - keys.begin > kTileKeys) {
    work.delta.fill(0);
    kernels.row_dots(gradient, arrays.gradient.row, arrays.output.at(batch, head, block.first),
                     arrays.output.row, block.rows, problem.value_depth, work.delta.data());
    delta = work.delta.data();
  }
  pack_queries(problem, block, work);
  products.copy_rows(gradient, arrays.gradient.row, block.rows, problem.value_depth, 1,
                     more.gradient_rows.data(), padded(problem.value_depth));
  products.transpose_padded(gradient, arrays.gradient.row, block.rows, problem.value_depth,
                            more.gradient_columns.data(), lanes);
  float* const of_scores = more.of_scores.data();
  float* const of_query = arrays.query.at(batch, head, block.first);
  bool add = false;
  for_tiles(problem, block, work, [&](int64_t first, const ScoreTile& tile) {
    products.multiply(product_of_keys(tile, problem.depth, problem.key.at(batch, key_head, first),
                                      problem.key.row, work.query_columns.data(), tile.scores));
    products.multiply(product_of_keys(tile, problem.value_depth,
                                      problem.value.at(batch, key_head, first), problem.value.row,
                                      more.gradient_columns.data(), of_scores));
    kernels.softmax_backward(tile, work.logsumexp.data(), delta, of_scores);
    const auto add_to_keys = [&](const float* of_tile, const float* of_queries, int64_t columns,
                                 const HeadsView<float>& to) {
      products.multiply({.rows = tile.keys,
                         .columns = columns,
                         .k = block.rows,
                         .p = {of_tile, lanes, 1},
                         .q = of_queries,
                         .q_stride = padded(columns),
                         .d = to.at(batch, key_head, first),
                         .d_stride = to.row,
                         .add = true});
    };
    add_to_keys(tile.scores, more.gradient_rows.data(), problem.value_depth, arrays.value);
    add_to_keys(of_scores, work.query_rows.data(), problem.depth, arrays.key);
    add_to_queries(tile, block.rows, of_scores, problem.key.at(batch, key_head, first),
                   problem.key.row, problem.depth, of_query, arrays.query.row, nullptr, add, work);
    add = true;
  });
  for (int64_t r = 0; r < block.rows; ++r) {
    float* const row = arrays.query.at(batch, head, block.first + r);
    for (int64_t c = 0; c < problem.depth; ++c) row[c] = add ? row[c] * problem.scale : 0;
  }
}

/// A head of keys and values with the heads of queries that share it.
void backward_head(const Problem& problem, int64_t batch, int64_t key_head, bool mean_of_unseen,
                   const Gradients& arrays, Workspace& work, BackwardWorkspace& more) {
  const AttentionKernels& kernels = attention_kernels();
  fill_zeros(arrays.key, batch, key_head, problem.keys, problem.depth);
  fill_zeros(arrays.value, batch, key_head, problem.keys, problem.value_depth);
  float* const of_unseeing = work.row.data();
  std::fill_n(of_unseeing, problem.value_depth, 0.0F);
  bool some_unseeing = false;
  for (int64_t head = key_head * problem.shared; head < (key_head + 1) * problem.shared; ++head) {
    for (int64_t first = 0; first < problem.queries; first += problem.tile_queries) {
      const int64_t rows = std::min(problem.tile_queries, problem.queries - first);
      backward_block(problem, {batch, head, first, rows}, arrays, work, more);
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
  const bool in_place = is_cpu_float(query);
  const bool in_tiles = problem.keys > kTileKeys;  // else backward_block has no use for the output
  const int64_t heads = problem.key_heads();
  const int64_t work_of_head = problem.shared * problem.queries * problem.keys *
                               (3 * problem.depth + 2 * problem.value_depth);
  const int64_t grain = std::max<int64_t>(1, kPartMultiplications / work_of_head);
  parallel_for(0, problem.batches * heads, grain, [&](int64_t begin, int64_t end) {
    Workspace work(problem);
    BackwardWorkspace more(problem);
    const int64_t shared = problem.shared;
    HeadsIn queries(query, shared), keys(key, 1), values(value, 1);
    HeadsIn gradients(gradient, shared), outputs(output, shared);
    HeadsOut of_queries(of_query, shared), of_keys(of_key, 1), of_values(of_value, 1);
    Problem part = problem;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / heads;
      const int64_t head = i % heads;
      part.query = queries.take(batch, head * shared);
      part.key = keys.take(batch, head);
      part.value = values.take(batch, head);
      const Gradients arrays = {
          .gradient = gradients.take(batch, head * shared),
          .output = in_tiles ? outputs.take(batch, head * shared) : HeadsView<const float>(),
          .logsumexp = logsumexp.const_data_ptr<float>(),
          .query = of_queries.take(head * shared),
          .key = of_keys.take(head),
          .value = of_values.take(head)};
      if (in_place && i + 1 < end) fetch_head(part, (i + 1) / heads, (i + 1) % heads, arrays);
      backward_head(part, batch, head, mean_of_unseen, arrays, work, more);
      of_queries.put(batch, 0, problem.queries);
      of_keys.put(batch, 0, problem.keys);
      of_values.put(batch, 0, problem.keys);
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
  if (!attention_kernels_apply(query, key, value, all) ||
      gradient.scalar_type() != query.scalar_type()) {
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
  if (dropout == 0 && is_cpu_float(query) &&
      attention_kernels_apply(query, key, value, {.scores = mask})) {
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
  return (is_cpu_float(x) || takes_bfloat16(x)) && x.dim() == 4 && x.numel() > 0 &&
         (x.stride(3) == 1 || x.size(3) == 1);
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
      !is_plain_heads(value) || key.scalar_type() != query.scalar_type() ||
      value.scalar_type() != query.scalar_type()) {
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
