#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/wire/address.h"
#include "strata/wire/connection.h"
#include "strata/wire/deadline.h"
#include "strata/wire/hello.h"
#include "strata/wire/transfer.h"

namespace strata::wire {

struct ListenOptions {
  /// Says whether a peer may come in; what it returns otherwise is the reason, which the peer gets
  /// and the log. Called by the thread that makes progress; it must not wait. Empty: all of the
  /// same job.
  std::function<Status(const Hello& peer, const Address& from)> admit = {};
  /// Told that a peer has come in, which `try_accept` has now; under the same rules.
  std::function<void()> arrived = {};
};

struct ConnectOptions {
  /// The task that must answer ("/job:worker/task:2"); empty: whoever does.
  std::string peer = {};
};

/// All connections of one task, over one kind of wire. It has no thread of its own: whoever waits
/// makes progress for all of them, first busily for some microseconds, then asleep.
///
/// Threads: any number may wait at once; one of them works and wakes the others.
class STRATA_API Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Listens at `address`, and there only. Strangers (another job, another protocol, no right
  /// certificate) are refused and logged. At most once.
  /// @param hello  What peers are answered with.
  /// @return the address with its real port.
  /// @throws Error kInvalidArgument: no such address here. kAlreadyExists: in use. Both quote it.
  virtual Address listen(const Address& address, const Hello& hello,
                         const ListenOptions& options = {}) = 0;

  /// The next peer that has come in, waited for.
  /// @throws Error kDeadlineExceeded, kCancelled (`stop`), kFailedPrecondition: not listening.
  virtual std::shared_ptr<Connection> accept(Deadline deadline, std::stop_token stop = {}) = 0;

  /// The same without waiting or progress; null: nobody has come in.
  virtual std::shared_ptr<Connection> try_accept() = 0;

  /// Connects, and tries again until the deadline while nobody answers there or the name is not
  /// known; the name is looked up each time.
  /// @throws Error kDeadlineExceeded: says what the last try met. kPermissionDenied: the peer
  ///   refused; says why. kUnauthenticated: TLS, or another task answered. kCancelled (`stop`).
  virtual std::shared_ptr<Connection> connect(const Address& address, const Hello& hello,
                                              Deadline deadline, const ConnectOptions& options = {},
                                              std::stop_token stop = {}) = 0;

  /// Waits for one transfer. @return its status; or kDeadlineExceeded, kCancelled (`stop`), with
  /// what was waited for: then it is still pending.
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

  /// Lets every waiting thread look at its `done()` again: for what else it depends on.
  virtual void wake() = 0;

 protected:
  Transport() = default;

 private:
  virtual bool do_wait_until(const std::function<bool()>& done, Deadline deadline,
                             std::stop_token stop) = 0;
};

}  // namespace strata::wire
