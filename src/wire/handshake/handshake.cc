#include "wire/handshake/handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "core/escaped.h"
#include "core/hmac_sha256.h"
#include "wire/handshake/proof.h"
#include "wire/tls/certificates.h"

namespace strata::wire {
namespace {

constexpr std::string_view kSetSecret =
    "; set STRATA_JOB_SECRET_FILE to a copy of the same file for all tasks (or STRATA_JOB_SECRET, "
    "or the option job_secret)";

std::string_view name_of(std::string_view way) { return way.empty() ? "sockets" : way; }

std::array<char, kNonceSize> make_nonce() {
  std::array<char, kNonceSize> nonce;
  STRATA_CHECK(::getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()),
               kInternal, "[wire] the system gives no random bytes");
  return nonce;
}

Status no_secret(const std::string& task, const std::string& asker) {
  return {ErrorCode::kUnauthenticated,
          str_cat(task, " has no job secret, and ", asker, " asks for one", kSetSecret)};
}

}  // namespace

Handshake::Handshake(bool connects, std::unique_ptr<Stream> stream, Address address,
                     HelloMessage own, PeerValidator validator, Deadline deadline,
                     std::function<void()> on_finished, std::optional<JobSecret> secret)
    : connects_(connects),
      address_(std::move(address)),
      own_(std::move(own)),
      validator_(std::move(validator)),
      deadline_(deadline),
      on_finished_(std::move(on_finished)),
      secret_(std::move(secret)),
      stream_(std::move(stream)) {
  own_.upgrade_protocol = stream_->upgrade_protocol();
  own_.proves = secret_.has_value();
  own_.nonce = make_nonce();
  own_hello_ = encode_hello(own_);
  if (connects_) out_ = own_hello_;
}

bool Handshake::ready(bool&, bool hung_up) {
  bool just_finished = false;
  {
    const MutexLock lock(mutex_);
    hung_up_ |= hung_up;
    polled_ = true;
    if (step_ == Step::kFinished) return false;
    while (step_ != Step::kFinished && step()) {
    }
    just_finished = step_ == Step::kFinished;
  }
  if (just_finished) on_finished_();
  return true;
}

// @return whether the next step may be taken at once.
bool Handshake::step() {
  switch (step_) {
    case Step::kEstablish:
      switch (stream_->establish()) {
        case Stream::Outcome::kMoved:
          step_ = connects_ ? Step::kWrite : Step::kRead;
          return true;
        case Stream::Outcome::kBlocked:
          return false;
        default:
          fail(stream_->status());
          return false;
      }
    case Step::kRead:
      return read();
    case Step::kWrite:
      return write();
    case Step::kUpgrade:
      switch (stream_->upgrade()) {
        case Stream::Outcome::kMoved:
          finish();
          return false;
        case Stream::Outcome::kBlocked:
          return false;
        default:
          fail(stream_->status());
          return false;
      }
    case Step::kFinished:
      return false;
  }
  return false;
}

bool Handshake::read() {
  try {
    const size_t body = handshake_message_size(in_);
    const size_t wanted = std::max(kEnvelopeSize, kEnvelopeSize + body);
    if (body > 0 && in_.size() == wanted) {
      const std::string all = std::exchange(in_, {});
      const auto message = decode_handshake_message(std::string_view(all).substr(0, kEnvelopeSize),
                                                    std::string_view(all).substr(kEnvelopeSize));
      if (const Status* refusal = std::get_if<Status>(&message)) {
        refused_ = true;
        fail(*refusal);
      } else if (const HelloMessage* hello = std::get_if<HelloMessage>(&message)) {
        STRATA_CHECK(!hellos_exchanged_, kDataLoss, "a second hello instead of a proof");
        peer_hello_ = all;
        on_message(*hello);
      } else {
        STRATA_CHECK(hellos_exchanged_, kDataLoss, "a proof before a hello");
        on_message(std::get<Proof>(message));
      }
      return step_ != Step::kFinished;
    }
    // Not a byte more: what follows belongs to the session.
    char bytes[kMaxHandshakeMessage + kEnvelopeSize];
    const iovec part = {.iov_base = bytes, .iov_len = wanted - in_.size()};
    const Stream::Result result = stream_->read({&part, 1});
    if (result.outcome == Stream::Outcome::kBlocked) return false;
    if (result.outcome == Stream::Outcome::kEnd) {
      fail({ErrorCode::kUnavailable,
            hellos_exchanged_
                ? "it closed the connection without a proof that it has the job's secret"
                : "it closed the connection without a hello"});
      return false;
    }
    if (result.outcome == Stream::Outcome::kFailed) {
      fail(stream_->status());
      return false;
    }
    in_.append(bytes, result.bytes);
    received_any_ = true;
    return true;
  } catch (const Error& error) {
    const Status why(error.code(), str_cat("it sent ", error.what()));
    if (!connects_ && error.code() == ErrorCode::kUnimplemented) {
      out_ = encode_reject(why);  // a member of the job, which gets the reason
      status_ = why;
      step_ = Step::kWrite;
      return true;
    }
    fail(why);
    return false;
  }
}

void Handshake::on_message(const HelloMessage& peer) {
  peer_ = peer;
  hellos_exchanged_ = true;
  Status verdict = check(peer);
  if (connects_) {
    if (verdict.ok()) verdict = validate_peer();
    if (!verdict.ok()) return fail(verdict);
    if (!secret_) {
      step_ = Step::kUpgrade;
      return;
    }
    out_ = own_proof();
    step_ = Step::kWrite;
    return;
  }
  peer_proved_ = !secret_;
  if (verdict.ok() && peer_proved_) verdict = validate_peer();
  answer(verdict, own_hello_);
}

void Handshake::on_message(const Proof& proof) {
  peer_proved_ = true;
  Status verdict = check(proof);
  if (connects_) {
    if (!verdict.ok()) return fail(verdict);
    step_ = Step::kUpgrade;
    return;
  }
  if (verdict.ok()) verdict = validate_peer();
  answer(verdict, verdict.ok() ? own_proof() : std::string());
}

/// To the one that connected.
void Handshake::answer(const Status& verdict, std::string when_ok) {
  status_ = verdict;
  out_ = verdict.ok() ? std::move(when_ok) : encode_reject(verdict);
  step_ = Step::kWrite;
}

/// Whether the peer can be of the job, as far as a hello tells.
Status Handshake::check(const HelloMessage& peer) const {
  const std::string& task = peer.hello.task;
  try {
    const std::vector<std::string> names = stream_->peer_names();
    if (!names.empty() && std::ranges::find(names, certificate_name(task)) == names.end()) {
      return {ErrorCode::kUnauthenticated,
              str_cat("its certificate is of ", strata::detail::escaped(names.front()),
                      ", but its hello names ", task, " (", certificate_name(task), ")")};
    }
  } catch (const Error& error) {
    return {ErrorCode::kUnauthenticated, error.what()};
  }
  // A job is as good as a password where there is nothing better: it is not revealed.
  if (peer.hello.job != own_.hello.job) {
    return {ErrorCode::kPermissionDenied,
            str_cat(task, " is of another job than ", own_.hello.task)};
  }
  if (!peer.proves && own_.proves) return no_secret(task, own_.hello.task);
  if (peer.proves && !own_.proves) return no_secret(own_.hello.task, task);
  if (peer.upgrade_protocol != own_.upgrade_protocol) {
    return {ErrorCode::kPermissionDenied,
            str_cat(task, " sends over ", name_of(peer.upgrade_protocol), ", ", own_.hello.task,
                    " over ", name_of(own_.upgrade_protocol), "; choose one wire for all tasks")};
  }
  return {};
}

Status Handshake::check(const Proof& proof) const {
  const std::string expected = connects_
                                   ? proof_of(End::kListener, *secret_, own_hello_, peer_hello_)
                                   : proof_of(End::kDialer, *secret_, peer_hello_, own_hello_);
  if (strata::detail::equal_in_constant_time(proof.bytes, expected)) return {};
  return {ErrorCode::kUnauthenticated,
          str_cat("the job secrets of ", peer_.hello.task, " and ", own_.hello.task,
                  " differ, or something between them changes what they send", kSetSecret)};
}

std::string Handshake::own_proof() const {
  return encode_proof({connects_ ? proof_of(End::kDialer, *secret_, own_hello_, peer_hello_)
                                 : proof_of(End::kListener, *secret_, peer_hello_, own_hello_)});
}

bool Handshake::write() {
  while (!out_.empty()) {
    const iovec part = {.iov_base = out_.data(), .iov_len = out_.size()};
    const Stream::Result result = stream_->write({&part, 1});
    if (result.outcome == Stream::Outcome::kBlocked) return false;
    if (result.outcome != Stream::Outcome::kMoved) {
      // Why may be written in what it sent before.
      const Status why = stream_->status();
      if (connects_) {
        out_.clear();
        step_ = Step::kRead;
        return true;
      }
      fail(why);
      return false;
    }
    out_.erase(0, result.bytes);
  }
  switch (stream_->flush()) {
    case Stream::Outcome::kMoved:
      break;
    case Stream::Outcome::kBlocked:
      return false;
    default:
      fail(stream_->status());
      return false;
  }
  if (connects_) {
    step_ = Step::kRead;
    return true;
  }
  if (status_.ok()) {
    step_ = peer_proved_ ? Step::kUpgrade : Step::kRead;
    return true;
  }
  stream_->end();
  fail(status_);
  return false;
}

void Handshake::fail(Status why) {
  status_ = std::move(why);
  stream_->close();
  finish();
}

void Handshake::finish() { step_ = Step::kFinished; }

void Handshake::abort(const Status& why) {
  {
    const MutexLock lock(mutex_);
    if (step_ == Step::kFinished) return;
    fail(why);
  }
  on_finished_();
}

bool Handshake::finished() const {
  const MutexLock lock(mutex_);
  return step_ == Step::kFinished;
}

Status Handshake::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

bool Handshake::refused() const {
  const MutexLock lock(mutex_);
  return refused_;
}

bool Handshake::hung_up() const {
  const MutexLock lock(mutex_);
  return hung_up_;
}

bool Handshake::received_any_bytes() const {
  const MutexLock lock(mutex_);
  return received_any_;
}

bool Handshake::silent() const {
  const MutexLock lock(mutex_);
  return polled_ && !received_any_ && stream_ != nullptr && !stream_->received_any_bytes();
}

std::string Handshake::stage() const {
  const MutexLock lock(mutex_);
  if (step_ == Step::kEstablish) return "no connection yet";
  if (step_ == Step::kUpgrade)
    return "the handshake succeeded, but the data protocol could not be set up";
  if (hellos_exchanged_) return "it sent its hello, but no proof that it has the job's secret";
  return in_.empty() ? "connected, but no hello arrived" : "only a part of its hello arrived";
}

std::unique_ptr<Stream> Handshake::take_stream() {
  const MutexLock lock(mutex_);
  return std::move(stream_);
}

}  // namespace strata::wire
