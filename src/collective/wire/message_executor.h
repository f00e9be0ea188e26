#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "collective/algorithms/reduction.h"
#include "collective/algorithms/scratch_layout.h"
#include "strata/collective/schedule.h"
#include "wire/transport.h"

namespace strata::collective {

/// What one rank's steps work on.
struct MessageBuffers {
  /// The result's first element is element `result_begin` of the whole.
  std::byte* result = nullptr;
  int64_t result_begin = 0;
  std::vector<const std::byte*> values = {};  ///< one a replica of the rank; slots 1, 2, ...
  int64_t elements = 0;
  int64_t element_bytes = 4;
  const Reduction* reduction = nullptr;  ///< null where nothing is added
};

/// Whom a rank talks to, and how long.
struct MessageRoute {
  wire::Transport* transport = nullptr;
  const std::vector<std::shared_ptr<wire::Connection>>* peers = nullptr;  ///< by rank; null: itself
  wire::Tag tag = {};
  wire::Deadline deadline = wire::Deadline::after({});
  std::stop_token stop = {};
  /// The next receive is posted, and its message may come, when no more bytes are left of those
  /// before it. At least what the line carries while a message's credit and its bytes travel.
  size_t receive_window = kLeastReceiveWindow;
  static constexpr size_t kLeastReceiveWindow = 512 << 10;
  /// Called with a failure while messages are still pending, so that peers learn the reason before
  /// they learn that messages were cancelled.
  std::function<void(const Status&)> on_failure = {};
};

/// Runs the steps of `rank`; the calling thread makes progress. Messages go one after the other in
/// the order of the steps, see TransferLine.
/// @return ok, or the first failure; then nothing refers to the buffers any more.
Status run_messages(const Schedule& schedule, const ScratchLayout& layout, int rank,
                    const MessageBuffers& buffers, const MessageRoute& route);

}  // namespace strata::collective
