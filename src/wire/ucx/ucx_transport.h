#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "strata/wire/security.h"
#include "wire/transport.h"

namespace strata::wire {

/// As SocketOptions.
struct UcxOptions {
  /// Holds for the beginning, over TCP; what comes later over UCX is not protected by it.
  std::optional<JobSecret> job_secret = std::nullopt;
  std::chrono::milliseconds silence_limit{0};
  size_t eager_limit = size_t{64} << 10;
  size_t eager_budget = size_t{8} << 20;
};

/// UCX: RDMA where the hosts have it, else TCP; never its shared memory, which cannot report that a
/// peer is lost. A connection begins over TCP at the address that the task listens at, where
/// strangers are turned away and where a peer's death is seen; then its bytes go over an endpoint
/// of UCX, which picks the devices (UCX_NET_DEVICES and UCX's other variables hold). Not encrypted,
/// and UCX opens ports of its own: for networks that are trusted.
/// @throws Error kUnimplemented: this build has no UCX. kUnavailable: UCX finds no device.
std::unique_ptr<Transport> make_ucx_transport(const UcxOptions& options = {});

/// Whether this build has it.
bool has_ucx_transport();

}  // namespace strata::wire
