#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace strata::test::fake_nccl {

/// What this process's communicators have done, all together. Threads: any.
class Counters {
 public:
  static Counters& of_process();

  void operation_ended(const std::string& kind);
  void bytes_sent(int peer, uint64_t bytes, bool to_other_host);
  void reset();

  uint64_t operations(const std::string& kind) const;
  uint64_t bytes_to(int peer) const;
  uint64_t bytes_to_other_hosts() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> operations_;
  std::map<int, uint64_t> bytes_;
  uint64_t bytes_to_other_hosts_ = 0;
};

}  // namespace strata::test::fake_nccl
