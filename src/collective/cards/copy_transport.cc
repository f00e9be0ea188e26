#include <c10/core/StreamGuard.h>

#include <deque>
#include <map>
#include <utility>

#include "collective/cards/card_transport.h"

namespace strata::collective {
namespace {

using tensor::StreamEvent;
using tensor::StreamWait;

/// The streams of a card's two directions.
struct Directions {
  c10::Stream sends;  ///< The current one: what was enqueued before is what is sent.
  c10::Stream
      receives;  ///< Beside it, since libtorch's copy has both cards' current streams wait for
                 ///< one another.
};

}  // namespace

void CopyTransport::exchange(const std::vector<CardMessage>& messages, const std::string& name) {
  std::map<std::pair<int, int>, std::deque<at::Tensor>> sent;
  std::map<int, Directions> cards;  // by index
  for (const CardMessage& message : messages) {
    const c10::Device card = message.memory.device();
    cards.try_emplace(card.index(), Directions{tensor::current_stream(card),
                                               tensor::side_stream(card, receives_)});
    if (message.is_send) sent[{message.from, message.to}].push_back(message.memory);
  }
  for (const auto& [index, card] : cards) {
    StreamEvent ready;
    ready.record(card.sends);
    ready.block(StreamWait::kReceiveForSums, card.receives);
  }
  for (const CardMessage& message : messages) {
    if (message.is_send) continue;
    std::deque<at::Tensor>& waiting = sent[{message.from, message.to}];
    STRATA_CHECK(!waiting.empty(), kInternal, "[collective] ", name, ": rank ", message.to,
                 " receives from ", message.from, ", which is not of this process");
    const c10::StreamGuard guard(cards.at(message.memory.device().index()).receives);
    at::Tensor target = message.memory;
    target.copy_(waiting.front(), /*non_blocking=*/true);
    waiting.pop_front();
  }
  for (const auto& [index, card] : cards) {
    StreamEvent received;
    received.record(card.receives);
    received.block(StreamWait::kSumForReceive, card.sends);
  }
}

}  // namespace strata::collective
