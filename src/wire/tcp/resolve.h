#pragma once

#include <sys/socket.h>

#include <memory>
#include <stop_token>
#include <vector>

#include "strata/wire/deadline.h"
#include "wire/address.h"
#include "wire/progress_engine.h"

namespace strata::wire {

struct SocketAddress {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

/// What `address` means, in the order in which the system prefers them. A name is looked up on a
/// thread, since the system's own call has no deadline; meanwhile `progress` continues. The thread
/// is left alone when the deadline passes.
/// @throws Error kUnavailable: nothing is known under that name, or not in time. kCancelled.
std::vector<SocketAddress> resolve(const Address& address, bool to_listen,
                                   const std::shared_ptr<ProgressEngine>& progress,
                                   Deadline deadline, const std::stop_token& stop);

/// The same where there is nothing to make progress for yet.
std::vector<SocketAddress> resolve(const Address& address, bool to_listen, Deadline deadline);

}  // namespace strata::wire
