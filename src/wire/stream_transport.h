#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "core/log_limiter.h"
#include "core/mutex.h"
#include "strata/wire/security.h"
#include "wire/handshake/handshake.h"
#include "wire/progress_engine.h"
#include "wire/session/session.h"
#include "wire/transport.h"

namespace strata::wire {

struct StreamTransportOptions {
  std::optional<JobSecret> job_secret = std::nullopt;
  size_t eager_limit = 0;
  size_t eager_budget = 0;
  std::optional<uint64_t> shuffle_seed = std::nullopt;
};

/// A transport over streams, whatever they are: who knocks, who is let in, who connects.
class StreamTransport : public Transport {
 public:
  ~StreamTransport() override;

  Address listen(const Address& address, const Hello& hello, const ListenOptions& options) override;
  std::shared_ptr<Connection> accept(Deadline deadline, std::stop_token stop) override;
  std::shared_ptr<Connection> try_accept() override;
  std::shared_ptr<Connection> connect(const Address& address, const Hello& hello, Deadline deadline,
                                      const ConnectOptions& options, std::stop_token stop) override;
  bool progress() override;
  void wake() override { progress_->notify(); }

 protected:
  StreamTransport(std::unique_ptr<Reactor> reactor, const StreamTransportOptions& options);

  /// Called by destructors of what derives, while all of it is still there.
  void shut_down();

  /// A new incoming stream.
  void on_incoming_stream(std::unique_ptr<Stream> stream, const Address& from);

  /// Turns the peer away that has been silent for longest, else the one that has been unfinished
  /// for longest and too long: there is no descriptor for another. @return whether there was one.
  bool reject_idle_handshake();

  const std::shared_ptr<ProgressEngine>& progress_engine() const { return progress_; }

 private:
  /// @throws Error as Transport::listen.
  virtual Address start_listening(const Address& address) = 0;
  /// Begins to connect; may wait, with progress, for a name to be looked up.
  /// @throws Error kUnavailable, kDeadlineExceeded: try again.
  virtual std::unique_ptr<Stream> dial(const Address& address, Deadline deadline,
                                       const std::stop_token& stop) = 0;

  bool do_wait_until(const std::function<bool()>& done, Deadline deadline,
                     std::stop_token stop) override;
  void on_handshake_finished(uint64_t key);
  void expire_handshakes();
  void evict_handshake();
  std::shared_ptr<Session> make_session(Handshake& handshake, uint64_t key,
                                        const std::string& own_task);
  void log_refusal(const Handshake& handshake);

  const StreamTransportOptions options_;
  const std::shared_ptr<ProgressEngine> progress_;

  Mutex mutex_;
  bool listening_ STRATA_GUARDED_BY(mutex_) = false;
  Hello hello_ STRATA_GUARDED_BY(mutex_);
  ListenOptions listen_options_ STRATA_GUARDED_BY(mutex_);
  struct PendingHandshake {
    uint64_t key;
    std::shared_ptr<Handshake> handshake;
    Deadline in_time;  ///< a peer of the job has finished before
  };
  std::deque<PendingHandshake> pending_handshakes_ STRATA_GUARDED_BY(mutex_);  // the longest first
  std::atomic<size_t> pending_count_{0};
  std::minstd_rand choice_ STRATA_GUARDED_BY(mutex_){std::random_device{}()};
  std::deque<std::shared_ptr<Session>> accepted_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Session>> sessions_ STRATA_GUARDED_BY(mutex_);
  strata::detail::LogLimiter refusals_;
  strata::detail::LogLimiter probes_;
  uint64_t sessions_made_ STRATA_GUARDED_BY(mutex_) = 0;
};

}  // namespace strata::wire
