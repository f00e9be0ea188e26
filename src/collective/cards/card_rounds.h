#pragma once

#include <vector>

#include "strata/collective/schedule.h"

namespace strata::collective {

/// A stage of a schedule, as one rank's card runs it: sums and copies, then messages that all ranks
/// exchange together.
struct CardRound {
  std::vector<Step> sums;      ///< kReduce and kCopy, in their order.
  std::vector<Step> sends;     ///< In the order of their peers' receives.
  std::vector<Step> receives;  ///< Of what the peers send in this stage.
};

/// A rank's steps by stage. A message is received in the stage that sends it: a card's stream does
/// what comes later afterwards, and find_fault has shown that its buffer is free from the start.
/// Every rank has as many rounds, and the messages of one match: groups of sends and receives that
/// wait for nothing but one another.
/// @throws Error kInternal: a receive without a matching send.
std::vector<CardRound> card_rounds(const Schedule& schedule, int rank);

}  // namespace strata::collective
