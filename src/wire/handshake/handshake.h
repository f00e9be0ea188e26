#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/mutex.h"
#include "strata/wire/deadline.h"
#include "strata/wire/security.h"
#include "wire/address.h"
#include "wire/handshake/handshake_message.h"
#include "wire/progress_engine.h"
#include "wire/stream.h"

namespace strata::wire {

/// The beginning of a connection: connecting, TLS, hellos, proofs of the job's secret, what else
/// its stream needs. It ends settled: with a stream and the peer's hello, or with a status.
/// Threads: `ready` the leader's, the others any.
///
/// The one that connects greets, the other one answers. With a secret, the one that connects then
/// proves that it knows it, and only then the other one does: a stranger that connects gets nothing
/// that could be tried against guesses of the secret, and no reason of the validator's.
class Handshake final : public Pollable {
 public:
  /// Says whether the peer may come in; else the reason.
  using PeerValidator = std::function<Status(const Hello& peer)>;

  /// One that connects speaks first. `own` is what it says, or answers; its nonce is made here.
  /// @param secret  The job's; none: peers must have none either.
  Handshake(bool connects, std::unique_ptr<Stream> stream, Address address, HelloMessage own,
            PeerValidator validator, Deadline deadline, std::function<void()> on_finished,
            std::optional<JobSecret> secret = std::nullopt);

  bool ready(bool& reschedule, bool hung_up) override;

  bool finished() const;
  /// Once settled; not ok: the peer was refused, or refused, or is none.
  Status status() const;
  /// Where it has come to, for errors.
  std::string stage() const;
  bool received_any_bytes() const;
  /// Whether not a byte has come since it was last looked at, though it was looked at.
  bool silent() const;
  /// Whether the status came from the peer's refusal.
  bool refused() const;
  const Address& address() const { return address_; }
  Deadline deadline() const { return deadline_; }

  /// Once settled with ok.
  std::unique_ptr<Stream> take_stream();
  const HelloMessage& peer() const { return peer_; }
  bool hung_up() const;

  /// Ends it, unless it is settled.
  void abort(const Status& why);

 private:
  enum class Step { kEstablish, kRead, kWrite, kUpgrade, kFinished };

  bool step() STRATA_REQUIRES(mutex_);
  bool read() STRATA_REQUIRES(mutex_);
  bool write() STRATA_REQUIRES(mutex_);
  void on_message(const HelloMessage& peer) STRATA_REQUIRES(mutex_);
  void on_message(const Proof& proof) STRATA_REQUIRES(mutex_);
  Status check(const HelloMessage& peer) const STRATA_REQUIRES(mutex_);
  Status check(const Proof& proof) const STRATA_REQUIRES(mutex_);
  Status validate_peer() const STRATA_REQUIRES(mutex_) {
    return validator_ ? validator_(peer_.hello) : Status();
  }
  std::string own_proof() const STRATA_REQUIRES(mutex_);
  void answer(const Status& verdict, std::string when_ok) STRATA_REQUIRES(mutex_);
  void fail(Status why) STRATA_REQUIRES(mutex_);
  void finish() STRATA_REQUIRES(mutex_);

  const bool connects_;
  const Address address_;
  HelloMessage own_;
  const PeerValidator validator_;
  const Deadline deadline_;
  const std::function<void()> on_finished_;
  const std::optional<JobSecret> secret_;

  mutable Mutex mutex_;
  std::unique_ptr<Stream> stream_ STRATA_GUARDED_BY(mutex_);
  Step step_ STRATA_GUARDED_BY(mutex_) = Step::kEstablish;
  Status status_ STRATA_GUARDED_BY(mutex_);
  HelloMessage peer_ STRATA_GUARDED_BY(mutex_);
  bool hellos_exchanged_ STRATA_GUARDED_BY(mutex_) = false;  // both have
  bool peer_proved_ STRATA_GUARDED_BY(mutex_) = false;       // the peer has, or need not
  std::string own_hello_ STRATA_GUARDED_BY(mutex_);          // as it was sent
  std::string peer_hello_ STRATA_GUARDED_BY(mutex_);         // as it came
  bool refused_ STRATA_GUARDED_BY(mutex_) = false;
  bool hung_up_ STRATA_GUARDED_BY(mutex_) = false;
  bool polled_ STRATA_GUARDED_BY(mutex_) = false;
  bool received_any_ STRATA_GUARDED_BY(mutex_) = false;
  std::string in_ STRATA_GUARDED_BY(mutex_);
  std::string out_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::wire
