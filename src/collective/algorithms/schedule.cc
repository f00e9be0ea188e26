#include "strata/collective/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "strata/core/error.h"

namespace strata::collective {
namespace {

/// Where border `index` lies in a buffer of `size` elements.
int64_t border_at(const Schedule& schedule, int64_t size, int index) {
  const size_t last = schedule.borders.size() - 1;
  if (static_cast<size_t>(index) == last) return size;
  const auto exact =
      static_cast<int64_t>(static_cast<__int128>(size) *
                           schedule.borders[static_cast<size_t>(index)] / schedule.borders[last]);
  const int64_t a = schedule.alignment;
  return std::min(size, (exact + a - 1) / a * a);
}

std::string part(const Schedule& schedule, const Step& step) {
  if (step.chunks == 0) return "nothing";
  const auto chunk = static_cast<size_t>(step.chunk);
  const auto all = schedule.borders.back();
  return str_cat(schedule.borders[chunk], "/", all, "..",
                 schedule.borders[chunk + static_cast<size_t>(step.chunks)], "/", all, " of slot ",
                 step.target);
}

}  // namespace

Range Schedule::range(int64_t size, int chunk, int chunks) const {
  return {.begin = border_at(*this, size, chunk), .end = border_at(*this, size, chunk + chunks)};
}

Schedule shared_direct_all_reduce(int num_ranks) {
  Schedule schedule;
  schedule.name = "shared_direct";
  schedule.alignment = 64;  // two ranks never write one cache line
  for (int i = 0; i <= num_ranks; ++i) schedule.borders.push_back(i);
  for (int i = 0; i < num_ranks; ++i) schedule.sources.push_back(i);
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<Step> steps;
    steps.push_back({.kind = Step::Kind::kBarrier});
    steps.push_back({.kind = Step::Kind::kReduce,
                     .chunk = rank,
                     .target = rank,
                     .first = 0,
                     .last = num_ranks});
    for (int target = 0; target < num_ranks; ++target) {
      if (target == rank) continue;
      steps.push_back({.kind = Step::Kind::kCopy,
                       .chunk = rank,
                       .target = target,
                       .first = rank,
                       .last = rank + 1});
    }
    steps.push_back({.kind = Step::Kind::kBarrier});
    schedule.ranks.push_back(std::move(steps));
  }
  return schedule;
}

Schedule segmented(const Schedule& schedule, int count) {
  STRATA_DCHECK(count >= 1);
  if (count == 1) return schedule;
  Schedule result;
  result.name = str_cat(schedule.name, "/", count);
  result.alignment = schedule.alignment;
  result.ranks.resize(schedule.ranks.size());
  result.slots = schedule.slots;
  const int chunks = schedule.num_chunks();
  for (int segment = 0; segment < count; ++segment) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      result.borders.push_back(segment * schedule.borders.back() +
                               schedule.borders[static_cast<size_t>(chunk)]);
    }
  }
  result.borders.push_back(count * schedule.borders.back());
  result.sources = schedule.sources;

  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Step>& steps = schedule.ranks[rank];
    int stages = 0;
    for (const Step& step : steps) stages = std::max(stages, step.stage + 1);
    std::vector<std::vector<Step>> by_stage(static_cast<size_t>(stages));
    for (const Step& step : steps) by_stage[static_cast<size_t>(step.stage)].push_back(step);
    for (int turn = 0; turn < stages + count - 1; ++turn) {
      // The newest segment first: its sends fill the line while older ones wait for their own.
      for (int segment = std::min(turn, count - 1); segment >= 0; --segment) {
        const int stage = turn - segment;
        if (stage >= stages) break;
        for (Step step : by_stage[static_cast<size_t>(stage)]) {
          step.chunk += segment * chunks;
          step.stage = turn;
          result.ranks[rank].push_back(step);
        }
      }
    }
  }
  return result;
}

Traffic traffic(const Schedule& schedule) {
  Traffic result;
  const double all = static_cast<double>(schedule.borders.back());
  std::vector<double> received(schedule.ranks.size());
  for (const auto& steps : schedule.ranks) {
    double sent = 0;
    int64_t messages = 0;
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::kReceive) result.stages = std::max(result.stages, step.stage);
      if (step.kind != Step::Kind::kSend) continue;
      const auto chunk = static_cast<size_t>(step.chunk);
      const double bytes =
          static_cast<double>(schedule.borders[chunk + static_cast<size_t>(step.chunks)] -
                              schedule.borders[chunk]) /
          all;
      sent += bytes;
      received[static_cast<size_t>(step.peer)] += bytes;
      ++messages;
    }
    result.total += sent;
    result.sent = std::max(result.sent, sent);
    result.messages = std::max(result.messages, messages);
  }
  for (const double bytes : received) result.received = std::max(result.received, bytes);
  return result;
}

std::string to_string(const Schedule& schedule) {
  std::string text = str_cat(schedule.name, "\n");
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += str_cat("rank ", rank, "\n");
    for (const Step& step : schedule.ranks[rank]) {
      text += str_cat("  ", step.stage, ": ");
      switch (step.kind) {
        case Step::Kind::kBarrier:
          text += "barrier";
          break;
        case Step::Kind::kSend:
          text += str_cat("send ", part(schedule, step), " to ", step.peer);
          break;
        case Step::Kind::kReceive:
          text += str_cat("receive ", part(schedule, step), " from ", step.peer);
          break;
        case Step::Kind::kReduce:
        case Step::Kind::kCopy:
          text += str_cat(part(schedule, step), " =");
          for (int i = step.first; i < step.last; ++i) {
            const int source = schedule.sources[static_cast<size_t>(i)];
            text += source == Schedule::kAbsent ? " -" : str_cat(" ", source);
          }
          break;
      }
      text += "\n";
    }
  }
  return text;
}

Range chunk_range(int64_t size, int count, int index) {
  constexpr int64_t kAlignment = 64;
  const int64_t even = (size + count - 1) / count;
  const int64_t part = (even + kAlignment - 1) / kAlignment * kAlignment;
  return {.begin = std::min(size, part * index), .end = std::min(size, part * (index + 1))};
}

}  // namespace strata::collective
