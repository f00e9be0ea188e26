#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "strata/wire/address.h"
#include "strata/wire/deadline.h"
#include "strata/wire/job_secret.h"
#include "wire/handshake/greeting.h"
#include "wire/progress.h"
#include "wire/stream.h"

namespace strata::wire {

/// The beginning of a connection: connecting, TLS, greetings, proofs of the job's secret, what else
/// its stream needs. It ends settled: with a stream and the peer's greeting, or with a status.
/// Threads: `ready` the leader's, the others any.
///
/// The one that connects greets, the other one answers. With a secret, the one that connects then
/// proves that it knows it, and only then the other one does: a stranger that connects gets nothing
/// that could be tried against guesses of the secret, and no reason of the judge's.
class Handshake final : public Pollable {
 public:
  /// Says whether the peer may come in; else the reason.
  using Judge = std::function<Status(const Hello& peer)>;

  /// One that connects speaks first. `own` is what it says, or answers; its nonce is made here.
  /// @param secret  The job's; none: peers must have none either.
  Handshake(bool connects, std::unique_ptr<Stream> stream, Address address, Greeting own,
            Judge judge, Deadline deadline, std::function<void()> on_settled,
            std::optional<JobSecret> secret = std::nullopt);

  bool ready(bool& again, bool hung_up) override;

  bool settled() const;
  /// Once settled; not ok: the peer was refused, or refused, or is none.
  Status status() const;
  /// Where it has come to, for errors.
  std::string progress() const;
  bool heard_anything() const;
  /// Whether not a byte has come since it was last looked at, though it was looked at.
  bool silent() const;
  /// Whether the status came from the peer's refusal.
  bool refused() const;
  const Address& address() const { return address_; }
  Deadline deadline() const { return deadline_; }

  /// Once settled with ok.
  std::unique_ptr<Stream> take_stream();
  const Greeting& peer() const { return peer_; }
  bool hung_up() const;

  /// Ends it, unless it is settled.
  void give_up(const Status& why);

 private:
  enum class Step { kEstablish, kRead, kWrite, kBegin, kSettled };

  bool step();
  bool read();
  bool write();
  void hear(const Greeting& peer);
  void hear(const Proof& proof);
  Status check(const Greeting& peer) const;
  Status check(const Proof& proof) const;
  Status judged() const { return judge_ ? judge_(peer_.hello) : Status(); }
  std::string own_proof() const;
  void answer(const Status& verdict, std::string when_ok);
  void fail(Status why);
  void settle();

  const bool connects_;
  const Address address_;
  Greeting own_;
  const Judge judge_;
  const Deadline deadline_;
  const std::function<void()> on_settled_;
  const std::optional<JobSecret> secret_;

  mutable std::mutex mutex_;
  std::unique_ptr<Stream> stream_;
  Step step_ = Step::kEstablish;
  Status status_;
  Greeting peer_;
  bool greeted_ = false;       // both have
  bool proved_ = false;        // the peer has, or need not
  std::string own_greeting_;   // as it was sent
  std::string peer_greeting_;  // as it came
  bool refused_ = false;
  bool hung_up_ = false;
  bool looked_at_ = false;
  bool heard_ = false;
  std::string in_;
  std::string out_;
};

}  // namespace strata::wire
