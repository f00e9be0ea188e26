#include "collective/cards/card_rounds.h"

#include <algorithm>

#include "strata/core/error.h"

namespace strata::collective {
namespace {

int num_stages(const Schedule& schedule) {
  int stages = 0;
  for (const std::vector<Step>& steps : schedule.ranks) {
    for (const Step& step : steps) stages = std::max(stages, step.stage + 1);
  }
  return stages;
}

/// The stages in which `from` sends to `to`, message by message.
std::vector<int> stages_of_sends(const Schedule& schedule, int from, int to) {
  std::vector<int> stages;
  for (const Step& step : schedule.ranks[static_cast<size_t>(from)]) {
    if (step.kind == Step::Kind::kSend && step.peer == to) stages.push_back(step.stage);
  }
  return stages;
}

}  // namespace

std::vector<CardRound> card_rounds(const Schedule& schedule, int rank) {
  std::vector<CardRound> rounds(static_cast<size_t>(num_stages(schedule)));
  std::vector<std::vector<int>> sent;  // by peer
  for (int peer = 0; peer < schedule.num_ranks(); ++peer) {
    sent.push_back(stages_of_sends(schedule, peer, rank));
  }
  std::vector<size_t> received(sent.size());
  for (const Step& step : schedule.ranks[static_cast<size_t>(rank)]) {
    const auto stage = static_cast<size_t>(step.stage);
    switch (step.kind) {
      case Step::Kind::kReduce:
      case Step::Kind::kCopy:
        rounds[stage].sums.push_back(step);
        break;
      case Step::Kind::kSend:
        rounds[stage].sends.push_back(step);
        break;
      case Step::Kind::kReceive: {
        const auto peer = static_cast<size_t>(step.peer);
        STRATA_CHECK(received[peer] < sent[peer].size(), kInternal, "[collective] schedule ",
                     schedule.name, ": rank ", rank, " receives a message from ", step.peer,
                     " that is not sent");
        rounds[static_cast<size_t>(sent[peer][received[peer]++])].receives.push_back(step);
        break;
      }
      case Step::Kind::kBarrier:
        break;  // of ranks that share memory; cards do not
    }
  }
  return rounds;
}

}  // namespace strata::collective
