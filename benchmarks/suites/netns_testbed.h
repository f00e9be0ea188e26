#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace strata::bench {

/// What a host's line carries, each way.
struct LinkShape {
  double bits_per_second = 0;            ///< 0: as fast as the machine
  std::chrono::microseconds delay = {};  ///< of what the host sends and of what it gets, each

  /// How long a packet waits at most in front of the line, each way; more packets are lost.
  double queue_seconds() const;
};

/// Hosts with own addresses on a switch, made of Linux network namespaces: nothing in them reaches
/// any other network, nor is reached from one. For benchmarks, and for tests of faults.
///
/// The namespaces have no names and live by file descriptors of this process: however it ends, they
/// go with it and the processes inside. Needs root, and the commands ip, tc and nsenter.
/// Threads: one at a time.
class NetworkTestbed {
 public:
  /// Why there can be none on this machine; empty if there can.
  static std::string missing();

  /// @throws Error  kFailedPrecondition: as `missing`, or the kernel lacks what the shape needs;
  ///   quotes the command that failed.
  explicit NetworkTestbed(int hosts, const LinkShape& shape = {});
  ~NetworkTestbed();
  NetworkTestbed(const NetworkTestbed&) = delete;
  NetworkTestbed& operator=(const NetworkTestbed&) = delete;

  int num_hosts() const { return static_cast<int>(hosts_.size()); }
  std::string address(int host) const;  ///< "10.77.0.1" for host 0
  /// What to put before a command to run it on the host.
  std::vector<std::string> enter(int host) const;
  /// Moves the calling thread to the host: sockets that it makes from now on are there.
  void move_here(int host) const;
  /// Runs a command on the host to its end. @return what it printed.
  /// @throws Error  kUnavailable: it failed; quotes what it said.
  std::string run(int host, const std::vector<std::string>& command) const;

  void shape(int host, const LinkShape& shape);
  /// Pulls the host's plug: no packet arrives or leaves, and no host is notified.
  void partition(int host);
  void restore(int host);
  /// What the two hosts send to each other is dropped, and no host is notified.
  void partition(int a, int b);
  void restore(int a, int b);

 private:
  std::string path(int fd) const;
  std::string run_in(int fd, const std::string& script) const;

  int switch_ = -1;
  std::vector<int> hosts_;
};

}  // namespace strata::bench
