#include "wire/handshake/handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "core/escaped.h"
#include "core/hmac_sha256.h"
#include "strata/wire/certificates.h"
#include "wire/handshake/proof.h"

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

Handshake::Handshake(bool connects, std::unique_ptr<Stream> stream, Address address, Greeting own,
                     Judge judge, Deadline deadline, std::function<void()> on_settled,
                     std::optional<JobSecret> secret)
    : connects_(connects),
      address_(std::move(address)),
      own_(std::move(own)),
      judge_(std::move(judge)),
      deadline_(deadline),
      on_settled_(std::move(on_settled)),
      secret_(std::move(secret)),
      stream_(std::move(stream)) {
  own_.way = stream_->way();
  own_.proves = secret_.has_value();
  own_.nonce = make_nonce();
  own_greeting_ = encode_greeting(own_);
  if (connects_) out_ = own_greeting_;
}

bool Handshake::ready(bool&, bool hung_up) {
  bool just_settled = false;
  {
    const std::lock_guard lock(mutex_);
    hung_up_ |= hung_up;
    looked_at_ = true;
    if (step_ == Step::kSettled) return false;
    while (step_ != Step::kSettled && step()) {
    }
    just_settled = step_ == Step::kSettled;
  }
  if (just_settled) on_settled_();
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
    case Step::kBegin:
      switch (stream_->begin()) {
        case Stream::Outcome::kMoved:
          settle();
          return false;
        case Stream::Outcome::kBlocked:
          return false;
        default:
          fail(stream_->status());
          return false;
      }
    case Step::kSettled:
      return false;
  }
  return false;
}

bool Handshake::read() {
  try {
    const size_t body = greeting_size(in_);
    const size_t wanted = std::max(kEnvelopeSize, kEnvelopeSize + body);
    if (body > 0 && in_.size() == wanted) {
      const std::string all = std::exchange(in_, {});
      const auto heard = decode_greeting(std::string_view(all).substr(0, kEnvelopeSize),
                                         std::string_view(all).substr(kEnvelopeSize));
      if (const Status* refusal = std::get_if<Status>(&heard)) {
        refused_ = true;
        fail(*refusal);
      } else if (const Greeting* greeting = std::get_if<Greeting>(&heard)) {
        STRATA_CHECK(!greeted_, kDataLoss, "a second greeting instead of a proof");
        peer_greeting_ = all;
        hear(*greeting);
      } else {
        STRATA_CHECK(greeted_, kDataLoss, "a proof before a greeting");
        hear(std::get<Proof>(heard));
      }
      return step_ != Step::kSettled;
    }
    // Not a byte more: what follows belongs to the session.
    char bytes[kMaxGreeting + kEnvelopeSize];
    const iovec part = {.iov_base = bytes, .iov_len = wanted - in_.size()};
    const Stream::Result result = stream_->read({&part, 1});
    if (result.outcome == Stream::Outcome::kBlocked) return false;
    if (result.outcome == Stream::Outcome::kEnd) {
      fail({ErrorCode::kUnavailable,
            greeted_ ? "it closed the connection without a proof that it knows the job's secret"
                     : "it closed the connection without a greeting"});
      return false;
    }
    if (result.outcome == Stream::Outcome::kFailed) {
      fail(stream_->status());
      return false;
    }
    in_.append(bytes, result.bytes);
    heard_ = true;
    return true;
  } catch (const Error& error) {
    const Status why(error.code(), str_cat("it sent ", error.what()));
    if (!connects_ && error.code() == ErrorCode::kUnimplemented) {
      out_ = encode_refusal(why);  // one of ours, and to be told
      status_ = why;
      step_ = Step::kWrite;
      return true;
    }
    fail(why);
    return false;
  }
}

void Handshake::hear(const Greeting& peer) {
  peer_ = peer;
  greeted_ = true;
  Status verdict = check(peer);
  if (connects_) {
    if (verdict.ok()) verdict = judged();
    if (!verdict.ok()) return fail(verdict);
    if (!secret_) {
      step_ = Step::kBegin;
      return;
    }
    out_ = own_proof();
    step_ = Step::kWrite;
    return;
  }
  proved_ = !secret_;
  if (verdict.ok() && proved_) verdict = judged();
  answer(verdict, own_greeting_);
}

void Handshake::hear(const Proof& proof) {
  proved_ = true;
  Status verdict = check(proof);
  if (connects_) {
    if (!verdict.ok()) return fail(verdict);
    step_ = Step::kBegin;
    return;
  }
  if (verdict.ok()) verdict = judged();
  answer(verdict, verdict.ok() ? own_proof() : std::string());
}

/// To the one that connected.
void Handshake::answer(const Status& verdict, std::string when_ok) {
  status_ = verdict;
  out_ = verdict.ok() ? std::move(when_ok) : encode_refusal(verdict);
  step_ = Step::kWrite;
}

/// Whether the peer can be of the job, as far as a greeting tells.
Status Handshake::check(const Greeting& peer) const {
  const std::string& task = peer.hello.task;
  try {
    const std::vector<std::string> names = stream_->peer_names();
    if (!names.empty() && std::ranges::find(names, certificate_name(task)) == names.end()) {
      return {ErrorCode::kUnauthenticated,
              str_cat("its certificate is of ", strata::detail::escaped(names.front()),
                      ", but it says that it is ", task, " (", certificate_name(task), ")")};
    }
  } catch (const Error& error) {
    return {ErrorCode::kUnauthenticated, error.what()};
  }
  // A job is as good as a password where there is nothing better: it is not told.
  if (peer.hello.job != own_.hello.job) {
    return {ErrorCode::kPermissionDenied,
            str_cat(task, " is of another job than ", own_.hello.task)};
  }
  if (!peer.proves && own_.proves) return no_secret(task, own_.hello.task);
  if (peer.proves && !own_.proves) return no_secret(own_.hello.task, task);
  if (peer.way != own_.way) {
    return {ErrorCode::kPermissionDenied,
            str_cat(task, " sends over ", name_of(peer.way), ", ", own_.hello.task, " over ",
                    name_of(own_.way), "; choose one wire for all tasks")};
  }
  return {};
}

Status Handshake::check(const Proof& proof) const {
  const std::string expected =
      connects_ ? proof_of(End::kListener, *secret_, own_greeting_, peer_greeting_)
                : proof_of(End::kDialer, *secret_, peer_greeting_, own_greeting_);
  if (strata::detail::equal_in_constant_time(proof.bytes, expected)) return {};
  return {ErrorCode::kUnauthenticated,
          str_cat("the job secrets of ", peer_.hello.task, " and ", own_.hello.task,
                  " differ, or something between them changes what they send", kSetSecret)};
}

std::string Handshake::own_proof() const {
  return encode_proof({connects_
                           ? proof_of(End::kDialer, *secret_, own_greeting_, peer_greeting_)
                           : proof_of(End::kListener, *secret_, peer_greeting_, own_greeting_)});
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
    step_ = proved_ ? Step::kBegin : Step::kRead;
    return true;
  }
  stream_->end();
  fail(status_);
  return false;
}

void Handshake::fail(Status why) {
  status_ = std::move(why);
  stream_->close();
  settle();
}

void Handshake::settle() { step_ = Step::kSettled; }

void Handshake::give_up(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (step_ == Step::kSettled) return;
    fail(why);
  }
  on_settled_();
}

bool Handshake::settled() const {
  const std::lock_guard lock(mutex_);
  return step_ == Step::kSettled;
}

Status Handshake::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Handshake::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

bool Handshake::hung_up() const {
  const std::lock_guard lock(mutex_);
  return hung_up_;
}

bool Handshake::heard_anything() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}

bool Handshake::silent() const {
  const std::lock_guard lock(mutex_);
  return looked_at_ && !heard_ && stream_ != nullptr && !stream_->heard_anything();
}

std::string Handshake::progress() const {
  const std::lock_guard lock(mutex_);
  if (step_ == Step::kEstablish) return "no connection yet";
  if (step_ == Step::kBegin) return "greetings went well, and no way for the data was found";
  if (greeted_) return "it greeted, and no proof came that it knows the job's secret";
  return in_.empty() ? "connected, and no greeting came" : "half a greeting came";
}

std::unique_ptr<Stream> Handshake::take_stream() {
  const std::lock_guard lock(mutex_);
  return std::move(stream_);
}

}  // namespace strata::wire
