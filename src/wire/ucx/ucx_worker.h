#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "strata/core/error.h"
#include "wire/tcp/epoll_reactor.h"

namespace strata::wire {

/// What comes from UCX for one connection. Called with the worker's mutex held.
class UcxReceiver {
 public:
  virtual ~UcxReceiver() = default;
  /// Bytes `offset` on of the stream; to be given back with `release`.
  virtual void came(uint64_t offset, std::byte* bytes, size_t size) = 0;
  /// The peer has taken that many bytes in all.
  virtual void taken(uint64_t bytes) = 0;
  /// That much more of what was sent is on its way.
  virtual void passed(size_t bytes) = 0;
  virtual void endpoint_failed(const Status& why) = 0;
};

/// UCX's context and worker of one transport: the endpoints' messages, to whom they belong.
/// Threads: any; all but `poll` and the constructor with `mutex()` held.
class UcxWorker final : public Reactor {
 public:
  static constexpr size_t kChunk = size_t{64} << 10;

  UcxWorker();
  ~UcxWorker() override;

  void poll(std::vector<uint64_t>& ready, TimePoint until) override;
  void interrupt() override { epoll_.interrupt(); }

  EpollReactor& epoll() { return epoll_; }
  Mutex& mutex() STRATA_RETURN_CAPABILITY(mutex_) { return mutex_; }

  /// What peers need to reach this worker.
  const std::string& address() const { return address_; }

  /// @return a number that only its recipients know.
  uint64_t add(UcxReceiver& receiver) STRATA_REQUIRES(mutex_);
  void remove(uint64_t id) STRATA_REQUIRES(mutex_);

  Status connect(std::string_view address, UcxReceiver& receiver, ucp_ep_h& endpoint)
      STRATA_REQUIRES(mutex_);
  /// Drops what is not yet on its way.
  void close(ucp_ep_h endpoint) STRATA_REQUIRES(mutex_);

  /// Sends a copy of `parts`, at most kChunk bytes, to the peer's receiver `id`. No bytes: `offset`
  /// is how many were taken.
  /// `passed` tells the receiver `own` when it is on its way, perhaps at once.
  Status send(ucp_ep_h endpoint, uint64_t own, uint64_t id, uint64_t offset,
              std::span<const iovec> parts) STRATA_REQUIRES(mutex_);
  void release(std::byte* bytes) STRATA_REQUIRES(mutex_) { ucp_am_data_release(worker_, bytes); }

  /// The next `poll` reports it.
  void announce(uint64_t key) STRATA_REQUIRES(mutex_) {
    if (key != 0) announced_.push_back(key);
  }
  /// A `poll` at that time or up to half a second later reports it.
  void announce_at(uint64_t key, TimePoint time) STRATA_REQUIRES(mutex_) {
    later_.emplace_back(key, time);
  }
  /// Moves on what can be.
  void progress() STRATA_REQUIRES(mutex_);

 private:
  struct Header {
    uint64_t id;
    uint64_t offset;
  };
  struct Chunk {
    UcxWorker* worker;
    uint64_t own;
    Header header;
    size_t size;
    std::byte bytes[kChunk];
  };

  // UCX calls these from `progress`, `send` and `close`: the mutex is held.
  static ucs_status_t on_bytes(void* self, const void* header, size_t header_size, void* bytes,
                               size_t size, const ucp_am_recv_param_t* how);
  static ucs_status_t on_taken(void* self, const void* header, size_t header_size, void* bytes,
                               size_t size, const ucp_am_recv_param_t* how);
  static void on_sent(void* request, ucs_status_t status, void* chunk);
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);
  UcxReceiver* receiver(uint64_t id) const STRATA_REQUIRES(mutex_);
  void sent(Chunk* chunk) STRATA_REQUIRES(mutex_);
  UcxReceiver* receiver(const void* header, size_t header_size) const STRATA_REQUIRES(mutex_);
  void collect(std::vector<uint64_t>& ready) STRATA_REQUIRES(mutex_);
  void free_closed_endpoints() STRATA_REQUIRES(mutex_);

  Mutex mutex_;
  EpollReactor epoll_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  std::unordered_map<uint64_t, UcxReceiver*> receivers_ STRATA_GUARDED_BY(mutex_);
  std::unordered_map<ucp_ep_h, UcxReceiver*> endpoints_ STRATA_GUARDED_BY(mutex_);
  std::vector<ucs_status_ptr_t> closing_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Chunk>> spare_ STRATA_GUARDED_BY(mutex_);
  std::vector<uint64_t> announced_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::pair<uint64_t, TimePoint>> later_ STRATA_GUARDED_BY(mutex_);
  bool asleep_ STRATA_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::wire
