#include "wire/transport.h"

#include <algorithm>

namespace strata::wire {
namespace {

// Why no thread waits any longer for `transfer`.
Status gave_up(const Transfer& transfer, const std::stop_token& stop) {
  if (stop.stop_requested())
    return {ErrorCode::kCancelled,
            str_cat("[wire] wait: stopped waiting for ", transfer.describe())};
  return {ErrorCode::kDeadlineExceeded,
          str_cat("[wire] wait: the deadline passed before the ", transfer.describe(),
                  " was done; is the peer alive, and does it make the same calls?")};
}

}  // namespace

Status Transport::wait(Transfer& transfer, Deadline deadline, std::stop_token stop) {
  if (!transfer.done() && !wait_until([&transfer] { return transfer.done(); }, deadline, stop)) {
    return gave_up(transfer, stop);
  }
  return transfer.status();
}

Status Transport::wait_all(std::span<Transfer> transfers, Deadline deadline, std::stop_token stop) {
  size_t first = 0;  // before it all have ended well
  Status failure;
  const auto settled = [&] {
    // The failed one may be behind one that never ends.
    for (size_t i = first; i < transfers.size(); ++i) {
      if (!transfers[i].done()) continue;
      failure = transfers[i].status();
      if (!failure.ok()) return true;
      if (i == first) ++first;
    }
    return first == transfers.size();
  };
  if (settled() || wait_until(settled, deadline, stop)) return failure;
  return gave_up(transfers[first], stop);
}

}  // namespace strata::wire
