#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/wire/deadline.h"
#include "wire/address.h"
#include "wire/connection.h"
#include "wire/hello.h"
#include "wire/transfer.h"

namespace strata::wire {

struct ListenOptions {
  /// Decides whether a peer is admitted; a status other than ok is the reason, which is sent to the
  /// peer and logged. Called by the thread that makes progress; it must not wait. Empty: all peers
  /// of the same job.
  std::function<Status(const Hello& peer, const Address& from)> admit = {};
  /// Called when a peer has been admitted, which `try_accept` returns; under the same rules.
  std::function<void()> arrived = {};
};

struct ConnectOptions {
  /// The task that must answer ("/job:worker/task:2"); empty: any.
  std::string peer = {};
};

/// All connections of one task, over one kind of wire. Progress is caller-driven, without a thread
/// of its own: a waiting thread makes progress for all connections, first by polling for some
/// microseconds, then asleep.
///
/// Threads: any number may wait at once; one of them polls and wakes the others.
class STRATA_API Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Listens at `address`, and there only. Strangers (another job, another protocol, no right
  /// certificate) are refused and logged. At most once.
  /// @param hello  The answer to peers.
  /// @return the address with its real port.
  /// @throws Error kInvalidArgument: no such address here. kAlreadyExists: in use. Both quote it.
  virtual Address listen(const Address& address, const Hello& hello,
                         const ListenOptions& options = {}) = 0;

  /// Waits for the next admitted peer.
  /// @throws Error kDeadlineExceeded, kCancelled (`stop`), kFailedPrecondition: not listening.
  virtual std::shared_ptr<Connection> accept(Deadline deadline, std::stop_token stop = {}) = 0;

  /// Takes the next admitted peer without waiting or progress; null: there is no new peer.
  virtual std::shared_ptr<Connection> try_accept() = 0;

  /// Connects, and tries again until the deadline while the peer does not answer or the name is
  /// unknown; the name is looked up each time.
  /// @throws Error kDeadlineExceeded: has the error of the last try. kPermissionDenied: the peer
  ///   refused; has its reason. kUnauthenticated: TLS, or another task answered. kCancelled
  ///   (`stop`).
  virtual std::shared_ptr<Connection> connect(const Address& address, const Hello& hello,
                                              Deadline deadline, const ConnectOptions& options = {},
                                              std::stop_token stop = {}) = 0;

  /// Waits for one transfer. @return its status; or kDeadlineExceeded, kCancelled (`stop`) with its
  /// description: then it is still pending.
  Status wait(Transfer& transfer, Deadline deadline, std::stop_token stop = {});

  /// Waits until all are done, or one has failed. @return ok, the failed one's status, or as above.
  Status wait_all(std::span<Transfer> transfers, Deadline deadline, std::stop_token stop = {});

  /// Makes progress until `done()`, which is called often, by this thread, and must be cheap.
  /// @return false at the deadline, or when stop was requested.
  bool wait_until(const std::function<bool()>& done, Deadline deadline, std::stop_token stop = {}) {
    return do_wait_until(done, deadline, std::move(stop));
  }

  /// Does what can be done without waiting. @return whether it did anything.
  virtual bool progress() = 0;

  /// Makes every waiting thread evaluate its `done()` again, after a change outside of the
  /// transport.
  virtual void wake() = 0;

 protected:
  Transport() = default;

 private:
  virtual bool do_wait_until(const std::function<bool()>& done, Deadline deadline,
                             std::stop_token stop) = 0;
};

}  // namespace strata::wire
