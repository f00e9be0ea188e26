#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using Labels = std::vector<int32_t>;

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
  const double most = std::max(a, b);
  if (most == kImpossible) return most;
  return most + std::log(std::exp(a - most) + std::exp(b - most));
}

/// The log-probability of a sequence of labels so far, by whether the last step was blank.
struct Score {
  double blank = kImpossible, label = kImpossible;
  double total() const { return log_sum(blank, label); }
};
using Beam = std::map<Labels, Score>;

std::vector<std::pair<Labels, Score>> best_of(const Beam& beam, size_t count) {
  std::vector<std::pair<Labels, Score>> all(beam.begin(), beam.end());
  std::ranges::stable_sort(
      all, [](const auto& a, const auto& b) { return a.second.total() > b.second.total(); });
  if (all.size() > count) all.resize(count);
  return all;
}

/// Prefix beam search: after each step, `width` sequences with the highest probability, each the
/// sum over the ways of writing it with blanks and repetitions that were kept.
/// @param steps  `[time, classes]` log-probabilities, double, on the CPU.
std::vector<std::pair<Labels, Score>> beam_search(const at::Tensor& steps, int64_t length,
                                                  int32_t blank, size_t width) {
  Beam beam = {{{}, {.blank = 0}}};
  const auto classes = static_cast<int32_t>(steps.size(1));
  for (int64_t t = 0; t < length; ++t) {
    const at::Tensor row = steps.select(0, t).contiguous();
    const auto* log_p = row.const_data_ptr<double>();
    Beam next;
    for (const auto& [labels, score] : beam) {
      for (int32_t c = 0; c < classes; ++c) {
        const double p = log_p[c];
        if (c == blank) {
          Score& same = next[labels];
          same.blank = log_sum(same.blank, score.total() + p);
          continue;
        }
        Labels longer = labels;
        longer.push_back(c);
        Score& more = next[longer];
        if (!labels.empty() && labels.back() == c) {
          // Only a blank between makes it a second one.
          more.label = log_sum(more.label, score.blank + p);
          Score& same = next[labels];
          same.label = log_sum(same.label, score.label + p);
        } else {
          more.label = log_sum(more.label, score.total() + p);
        }
      }
    }
    beam.clear();
    for (auto& each : best_of(next, width)) beam.insert(std::move(each));
  }
  return best_of(beam, width);
}

Tensors decode_by_beams(const OperationCall& call, const at::Tensor& inputs,
                        const at::Tensor& lengths) {
  const auto paths_wanted = call.integer("top_paths", 1);
  const auto width = static_cast<size_t>(call.integer("beam_width", 100));
  const int64_t batch = inputs.size(0), time = inputs.size(1);
  // Asked for as a value, so that a step with this search is not recorded: what it reads below, a
  // recording would not see.
  const auto longest = lengths.numel() == 0 ? 0 : lengths.max().item<int64_t>();
  STRATA_CHECK(longest <= time, kInvalidArgument, "[keras] CTCDecode: got a sequence of length ",
               longest, " of ", time, " steps");
  const at::Tensor log_p = inputs.log_softmax(-1).to(at::kDouble).cpu();
  const at::Tensor steps = lengths.to(at::kLong).cpu().contiguous();
  const at::Tensor paths = at::full({paths_wanted, batch, time}, -1, at::kInt);
  const at::Tensor scores = at::full({batch, paths_wanted}, kImpossible, at::kDouble);
  auto* labels_out = paths.mutable_data_ptr<int32_t>();
  auto* scores_out = scores.mutable_data_ptr<double>();
  for (int64_t b = 0; b < batch; ++b) {
    const auto found = beam_search(log_p.select(0, b), steps.const_data_ptr<int64_t>()[b],
                                   static_cast<int32_t>(call.integer("mask_index", 0)), width);
    for (int64_t k = 0; k < std::min<int64_t>(paths_wanted, static_cast<int64_t>(found.size()));
         ++k) {
      const auto& [labels, score] = found[static_cast<size_t>(k)];
      std::copy(labels.begin(), labels.end(), labels_out + (k * batch + b) * time);
      scores_out[b * paths_wanted + k] = score.total();
    }
  }
  return {paths.to(inputs.device()), scores.to(inputs.options())};
}

Tensors decode_greedily(const OperationCall& call, const at::Tensor& inputs,
                        const at::Tensor& lengths) {
  const int64_t time = inputs.size(1), blank = call.integer("mask_index", 0);
  const at::Tensor step = at::arange(time, lengths.options().dtype(at::kLong)).unsqueeze(0);
  const at::Tensor behind = step >= lengths.to(at::kLong).unsqueeze(1);
  at::Tensor labels = at::where(behind, blank, inputs.argmax(-1));
  const at::Tensor scores = at::where(behind, 0.0, inputs.amax(-1)).to(inputs.scalar_type());
  if (call.option("merge_repeated").is_null() || call.flag("merge_repeated")) {
    const at::Tensor repeated = labels.narrow(1, 1, time - 1) == labels.narrow(1, 0, time - 1);
    labels = at::where(at::constant_pad_nd(repeated, {1, 0}, false), blank, labels);
  }
  const at::Tensor none = labels == blank;
  const at::Tensor order =
      std::get<1>(at::where(none, time, step).sort(/*stable=*/true, -1, false));
  return {at::where(none, -1, labels).gather(-1, order).to(at::kInt).unsqueeze(0),
          -scores.sum(1, true)};
}

Tensors decode(const OperationCall& call) {
  const at::Tensor inputs = floating(call.tensor(0, "inputs"));
  const at::Tensor lengths = call.tensor(1, "sequence_lengths");
  const std::string strategy = call.text("strategy", "greedy");
  STRATA_CHECK(strategy == "greedy" || strategy == "beam_search", kInvalidArgument,
               "[keras] CTCDecode: got strategy '", strategy,
               "'; expected 'greedy' or 'beam_search'");
  return strategy == "greedy" ? decode_greedily(call, inputs, lengths)
                              : decode_by_beams(call, inputs, lengths);
}

const OperationRow kDecodeRows[] = {
    several("nn", "CTCDecode", decode, "strategy beam_width top_paths merge_repeated mask_index"),
};

}  // namespace

std::span<const OperationRow> decode_operations() { return kDecodeRows; }

}  // namespace strata::keras::detail
