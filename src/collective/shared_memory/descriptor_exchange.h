#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wire/tcp/file_descriptor.h"

namespace strata::collective {

/// Brings rank 0's file descriptors to the other processes of one host.
///
/// They travel over a Unix socket with an abstract name: no file, nothing left behind, one network
/// namespace (which is what a host is here), and it works across pid namespaces and for processes
/// that may not look into each other's /proc/PID/fd. The name is random; both sides check the
/// other's user, and rank 0 a secret, so that a stranger gets nothing.
class DescriptorExchange {
 public:
  /// Called about every 20 ms while waiting; throws to end it.
  using Check = std::function<void()>;

  /// Rank 0. @throws Error  kUnavailable: says why it cannot.
  void listen();
  /// What the others need, to be sent to them over a channel that strangers do not read; empty for
  /// all but rank 0.
  const std::string& address() const { return address_; }

  /// Not rank 0. @throws Error  kUnavailable; what `check` throws.
  void connect(const std::string& address, const Check& check);
  /// Rank 0, when `others` ranks have connected: lets them in.
  void accept(int others, const Check& check);

  /// Every rank gets rank 0's `file`, which is the n-th for all.
  wire::FileDescriptor share(wire::FileDescriptor file, const Check& check);

 private:
  void admit(wire::FileDescriptor peer, const Check& check);

  bool source_ = false;  // rank 0
  std::string address_;  // name and secret
  wire::FileDescriptor listener_;
  std::vector<wire::FileDescriptor> peers_;  // of another rank: the one to rank 0
};

}  // namespace strata::collective
