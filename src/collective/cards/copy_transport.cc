#include <deque>
#include <map>
#include <utility>

#include "collective/cards/card_transport.h"

namespace strata::collective {

void CopyTransport::exchange(const std::vector<CardMessage>& messages, const std::string& name) {
  std::map<std::pair<int, int>, std::deque<at::Tensor>> sent;
  for (const CardMessage& message : messages) {
    if (message.is_send) sent[{message.from, message.to}].push_back(message.memory);
  }
  for (const CardMessage& message : messages) {
    if (message.is_send) continue;
    std::deque<at::Tensor>& waiting = sent[{message.from, message.to}];
    STRATA_CHECK(!waiting.empty(), kInternal, "[collective] ", name, ": rank ", message.to,
                 " receives from ", message.from, ", which is not of this process");
    at::Tensor target = message.memory;
    target.copy_(waiting.front(), /*non_blocking=*/true);
    waiting.pop_front();
  }
}

}  // namespace strata::collective
