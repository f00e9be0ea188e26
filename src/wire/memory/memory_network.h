#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "strata/wire/security.h"
#include "wire/transport.h"

namespace strata::wire {

/// One direction between two hosts of a MemoryNetwork.
struct LinkOptions {
  std::chrono::nanoseconds latency = {};
  double bytes_per_second = 0;  ///< 0: no limit

  /// Delivers in pieces of random length, down to a byte.
  bool fragment = false;
  /// Up to this much is added to each piece's latency; order is kept within a connection.
  std::chrono::nanoseconds jitter = {};
};

struct MemoryNetworkOptions {
  uint64_t seed = 1;  ///< of all that is random
  LinkOptions link = {};
  /// Messages that are not of one tag leave in random order.
  bool shuffle = false;
  size_t eager_limit = size_t{64} << 10;  ///< as SocketOptions
  size_t eager_budget = size_t{8} << 20;
};

/// A network inside this process, for tests and for modelled links: bytes go through the same
/// protocol as over sockets, and faults happen on command. What is random follows from the seed;
/// time is the steady clock's.
/// Threads: any.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(const MemoryNetworkOptions& options = {});
  ~MemoryNetwork();  // transports may outlive it
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  /// A task on `host`; addresses of this network are host names of its transports. Several
  /// transports may share a host.
  /// @param job_secret  As SocketOptions.
  std::unique_ptr<Transport> transport(const std::string& host,
                                       std::optional<JobSecret> job_secret = std::nullopt);

  /// From now on, for existing connections, too.
  void set_link(const std::string& from, const std::string& to, const LinkOptions& link);

  /// Breaks every connection between the two hosts (both sides see it at once) and lets none
  /// through until `heal`.
  void cut(const std::string& a, const std::string& b);
  /// Cuts as above when `bytes` more bytes have ended from `from` to `to`: at any step of a
  /// protocol.
  void cut_after(const std::string& from, const std::string& to, uint64_t bytes);
  /// Nothing arrives, without an error, until `heal`: a peer that was stopped, a black hole.
  void silence(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace strata::wire
