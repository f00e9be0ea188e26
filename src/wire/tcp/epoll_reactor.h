#pragma once

#include <cstdint>
#include <vector>

#include "wire/reactor.h"
#include "wire/tcp/file_descriptor.h"

namespace strata::wire {

/// Reports file descriptors by epoll. Threads: as Reactor.
class EpollReactor final : public Reactor {
 public:
  EpollReactor();

  /// Reports `key` whenever `fd` becomes readable or writable; with `while_readable` as long as it
  /// is readable. Ends when `fd` is closed.
  void add(int fd, uint64_t key, bool while_readable);

  /// Of one that was added with `while_readable`: whether it is reported from now on.
  void set_reported(int fd, uint64_t key, bool reported);

  void poll(std::vector<uint64_t>& ready, TimePoint until) override;
  void interrupt() override;

 private:
  FileDescriptor epoll_;
  FileDescriptor event_;
};

}  // namespace strata::wire
