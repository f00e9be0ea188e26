#include "kernels/attention_tiles.h"

#include "kernels/attention_products.h"

namespace strata::kernels::attention_tiles {
namespace {

/// Short causal sequences: smaller tiles hide more of what lies above the diagonal.
constexpr int64_t kFewQueries = 128;
constexpr int64_t kFewTileQueries = 32;

int64_t tile_queries_of(int64_t queries, bool causal) {
  if (queries <= 16) return 16;
  return queries <= kFewTileQueries || (causal && queries <= kFewQueries) ? kFewTileQueries
                                                                          : kTileQueries;
}

const uint8_t* bytes(const at::Tensor& tensor) {
  return static_cast<const uint8_t*>(tensor.const_data_ptr());
}

MaskView mask_view(const AttentionMask& mask, at::IntArrayRef scores) {
  MaskView view;
  view.causal = mask.causal;
  view.window = mask.window;
  if (mask.scores) {
    view.held = mask.scores->expand(scores);
    if (view.held.scalar_type() == at::kBool) {
      view.seen = bytes(view.held);
    } else {
      view.added = view.held.const_data_ptr<float>();
    }
    std::copy_n(view.held.strides().begin(), 4, view.strides.begin());
  }
  if (mask.queries) {
    view.held_queries = mask.queries->expand({scores[0], scores[2]});
    view.queries = bytes(view.held_queries);
    view.queries_strides = {view.held_queries.stride(0), view.held_queries.stride(1)};
  }
  if (mask.keys) {
    view.held_keys = mask.keys->expand({scores[0], scores[3]});
    view.keys = bytes(view.held_keys);
    view.keys_strides = {view.held_keys.stride(0), view.held_keys.stride(1)};
  }
  return view;
}

/// The keys that query `i` sees by its place alone.
KeyRange keys_in_reach(const Problem& problem, int64_t i) {
  const MaskView& mask = problem.mask;
  KeyRange range = {0, problem.keys};
  if (mask.causal) range.end = std::min(range.end, i + 1);
  if (mask.window > 0) {
    range.begin = std::max<int64_t>(0, i - std::min(mask.window - 1, i));
    if (mask.window < range.end - i) range.end = i + mask.window;
  }
  return range;
}

}  // namespace

Problem problem_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const AttentionMask& mask, double scale) {
  const int64_t queries = query.size(2);
  return {.batches = query.size(0),
          .heads = query.size(1),
          .shared = query.size(1) / key.size(1),
          .queries = queries,
          .keys = key.size(2),
          .depth = query.size(3),
          .value_depth = value.size(3),
          .query = {},
          .key = {},
          .value = {},
          .mask = mask_view(mask, {query.size(0), query.size(1), queries, key.size(2)}),
          .scale = static_cast<float>(scale),
          .tile_queries = tile_queries_of(queries, mask.causal)};
}

KeyRange keys_of(const Problem& problem, const Block& block) {
  KeyRange range = {keys_in_reach(problem, block.first).begin,
                    keys_in_reach(problem, block.first + block.rows - 1).end};
  const MaskView& mask = problem.mask;
  while (range.begin < range.end && !mask.sees_key(block.batch, range.begin)) ++range.begin;
  while (range.begin < range.end && !mask.sees_key(block.batch, range.end - 1)) --range.end;
  return range;
}

namespace {

/// What each lane sees by its query's place alone. @return Whether some lane sees something.
bool set_ranges(const Problem& problem, const Block& block, int64_t first, int64_t keys,
                Workspace& work, ScoreTile& tile) {
  const MaskView& mask = problem.mask;
  if (!mask.causal && mask.window == 0 && mask.queries == nullptr) return true;
  bool some = false;
  bool all = true;
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t i = block.first + r;
    const bool sees = mask.sees_query(block.batch, i);
    const KeyRange seen = sees ? keys_in_reach(problem, i) : KeyRange{0, 0};
    const auto at = static_cast<size_t>(r);
    work.begin[at] = static_cast<int32_t>(std::clamp<int64_t>(seen.begin - first, 0, keys));
    work.end[at] = static_cast<int32_t>(std::clamp<int64_t>(seen.end - first, 0, keys));
    some = some || work.begin[at] < work.end[at];
    all = all && work.begin[at] == 0 && work.end[at] == keys;
  }
  if (all) return true;
  std::fill(work.begin.begin() + block.rows, work.begin.end(), 0);
  std::fill(work.end.begin() + block.rows, work.end.end(), 0);
  tile.begin = work.begin.data();
  tile.end = work.end.data();
  return some;
}

/// Lays the mask out as scores are. @param rows  1: it is the same for all queries.
void transpose_bias(const float* by_queries, int64_t rows, int64_t keys, int64_t lanes,
                    float* bias) {
  if (rows > 1) {
    attention_products().transpose_padded(by_queries, padded(kTileKeys), rows, keys, bias, lanes);
    return;
  }
  for (int64_t key = 0; key < keys; ++key) std::fill_n(bias + key * lanes, lanes, by_queries[key]);
}

}  // namespace

bool prepare_tile(const Problem& problem, const Block& block, int64_t first, int64_t keys,
                  Workspace& work, ScoreTile& tile) {
  const MaskView& mask = problem.mask;
  tile = {.scores = work.scores.data(),
          .lanes = problem.tile_queries,
          .keys = keys,
          .bias = nullptr,
          .begin = nullptr,
          .end = nullptr};
  const bool any = set_ranges(problem, block, first, keys, work, tile);
  if (!any || !mask.has_bias()) return any;
  const auto& strides = mask.strides;
  const int64_t at = block.batch * strides[0] + block.head * strides[1] + block.first * strides[2] +
                     first * strides[3];
  TileMask part = {.seen = mask.seen == nullptr ? nullptr : mask.seen + at,
                   .added = mask.added == nullptr ? nullptr : mask.added + at,
                   .keys = nullptr,
                   .row_stride = strides[2],
                   .column_stride = strides[3],
                   .keys_stride = mask.keys_strides[1]};
  if (mask.keys != nullptr) {
    part.keys = mask.keys + block.batch * mask.keys_strides[0] + first * mask.keys_strides[1];
  }
  float* const by_queries = work.bias_by_queries.data();
  const Hides hides =
      attention_kernels().fill_bias(part, block.rows, keys, by_queries, padded(kTileKeys));
  if (hides == Hides::kSome) {
    transpose_bias(by_queries, part.row_stride == 0 ? 1 : block.rows, keys, tile.lanes,
                   work.bias.data());
    tile.bias = work.bias.data();
  }
  return hides != Hides::kAll;
}

}  // namespace strata::kernels::attention_tiles
