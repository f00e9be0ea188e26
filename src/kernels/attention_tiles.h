#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/attention_kernels.h"
#include "kernels/scratch.h"

/// Attention's tiles: which there are, and what hides in them.
namespace strata::kernels::attention_tiles {

/// The most queries and keys of a tile. They decide the order of sums: the bits. Scores of two
/// tiles fit the second-level cache beside what a head reads; the rows of a product's tile of sums
/// divide the keys.
inline constexpr int64_t kTileQueries = 64;
inline constexpr int64_t kTileKeys = 96;

/// `[batch, heads, rows, columns]`, columns contiguous.
template <typename T>
struct HeadsView {
  T* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t first = 0;  // the head that `data` begins with

  T* at(int64_t b, int64_t h, int64_t r) const {
    return data + b * batch + (h - first) * head + r * row;
  }
};

inline HeadsView<const float> view_of(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2), 0};
}
inline HeadsView<float> mutable_view_of(const at::Tensor& x) {
  return {x.mutable_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2), 0};
}

struct MaskView {
  at::Tensor held;  // Of which `mask` is a view.
  const uint8_t* seen = nullptr;
  const float* added = nullptr;
  std::array<int64_t, 4> strides = {};
  at::Tensor held_queries, held_keys;
  const uint8_t* queries = nullptr;
  std::array<int64_t, 2> queries_strides = {};
  const uint8_t* keys = nullptr;
  std::array<int64_t, 2> keys_strides = {};
  bool causal = false;
  int64_t window = 0;

  bool has_bias() const { return seen != nullptr || added != nullptr || keys != nullptr; }
  bool sees_query(int64_t batch, int64_t query) const {
    return queries == nullptr ||
           queries[batch * queries_strides[0] + query * queries_strides[1]] != 0;
  }
  bool sees_key(int64_t batch, int64_t key) const {
    return keys == nullptr || keys[batch * keys_strides[0] + key * keys_strides[1]] != 0;
  }
};

/// What is common to the forward and the backward pass.
struct Problem {
  int64_t batches;
  int64_t heads;
  int64_t shared;  // heads of a head of keys and values
  int64_t queries;
  int64_t keys;
  int64_t depth;
  int64_t value_depth;
  HeadsView<const float> query, key, value;
  MaskView mask;
  float scale;
  int64_t tile_queries;  // 16, 32 or 64, which are also a tile's lanes

  int64_t key_heads() const { return heads / shared; }
  int64_t query_blocks() const { return (queries + tile_queries - 1) / tile_queries; }
};

/// Without the views of query, key and value. @param mask  Broadcasts; their rows are contiguous.
Problem problem_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const AttentionMask& mask, double scale);

/// Some queries of a head.
struct Block {
  int64_t batch;
  int64_t head;
  int64_t first;
  int64_t rows;
};

/// Of a panel's row.
constexpr int64_t padded(int64_t columns) { return (columns + 15) / 16 * 16; }

/// A thread's memory.
struct Workspace {
  explicit Workspace(const Problem& problem)
      : scores(problem.tile_queries * kTileKeys),
        bias(problem.mask.has_bias() ? problem.tile_queries * kTileKeys : 0),
        bias_by_queries(problem.mask.has_bias() ? problem.tile_queries * padded(kTileKeys) : 0),
        query_rows(problem.tile_queries * padded(problem.depth)),
        query_columns(problem.depth * problem.tile_queries),
        panel(kTileKeys * padded(std::max(problem.depth, problem.value_depth))),
        row(problem.value_depth) {}

  RunningSoftmax running() { return {largest.data(), sum.data(), factor.data()}; }

  Scratch scores;           // [keys, lanes]
  Scratch bias;             // the same
  Scratch bias_by_queries;  // [lanes, keys]
  Scratch query_rows;       // [lanes, depth], times the scale
  Scratch query_columns;    // [depth, lanes], times the scale
  Scratch panel;            // of a tile's keys or values
  Scratch row;
  std::array<int32_t, kTileQueries> begin, end;
  alignas(64) std::array<float, kTileQueries> largest, sum, factor, logsumexp, delta;
};

/// The keys that some query of a block may see.
struct KeyRange {
  int64_t begin;
  int64_t end;
};
KeyRange keys_of(const Problem& problem, const Block& block);

/// Prepares the tile of a block's queries with `keys` keys from `first` on.
/// @return False: all of it is hidden.
bool prepare_tile(const Problem& problem, const Block& block, int64_t first, int64_t keys,
                  Workspace& work, ScoreTile& tile);

/// Calls visit(first key, tile) for the tiles of a block that are not hidden.
template <typename Visit>
void for_tiles(const Problem& problem, const Block& block, Workspace& work, const Visit& visit) {
  const KeyRange keys = keys_of(problem, block);
  for (int64_t first = keys.begin; first < keys.end; first += kTileKeys) {
    const int64_t count = std::min(kTileKeys, keys.end - first);
    ScoreTile tile;
    if (prepare_tile(problem, block, first, count, work, tile)) visit(first, tile);
  }
}

}  // namespace strata::kernels::attention_tiles
