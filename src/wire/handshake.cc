#include "wire/handshake.h"

#include <algorithm>
#include <utility>

#include "core/escaped.h"
#include "strata/wire/certificates.h"

namespace strata::wire {
namespace {

std::string_view name_of(std::string_view way) { return way.empty() ? "sockets" : way; }

}  // namespace

Handshake::Handshake(bool connects, std::unique_ptr<Stream> stream, Address address, Greeting own,
                     Judge judge, Deadline deadline, std::function<void()> on_settled)
    : connects_(connects),
      address_(std::move(address)),
      own_(std::move(own)),
      judge_(std::move(judge)),
      deadline_(deadline),
      on_settled_(std::move(on_settled)),
      stream_(std::move(stream)) {
  own_.way = stream_->way();
  if (connects_) out_ = encode_greeting(own_);
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
      const std::string_view all = in_;
      const auto heard = decode_greeting(all.substr(0, kEnvelopeSize), all.substr(kEnvelopeSize));
      if (const Status* refusal = std::get_if<Status>(&heard)) {
        refused_ = true;
        fail(*refusal);
      } else {
        hear(std::get<Greeting>(heard));
      }
      return step_ != Step::kSettled;
    }
    // Not a byte more: what follows belongs to the session.
    char bytes[kMaxGreeting + kEnvelopeSize];
    const iovec part = {.iov_base = bytes, .iov_len = wanted - in_.size()};
    const Stream::Result result = stream_->read({&part, 1});
    if (result.outcome == Stream::Outcome::kBlocked) return false;
    if (result.outcome == Stream::Outcome::kEnd) {
      fail({ErrorCode::kUnavailable, "it closed the connection without a greeting"});
      return false;
    }
    if (result.outcome == Stream::Outcome::kFailed) {
      fail(stream_->status());
      return false;
    }
    in_.append(bytes, result.bytes);
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
  Status verdict;
  try {
    const std::vector<std::string> names = stream_->peer_names();
    const std::string& task = peer.hello.task;
    if (!names.empty() && std::ranges::find(names, certificate_name(task)) == names.end()) {
      verdict = Status(ErrorCode::kUnauthenticated,
                       str_cat("its certificate is of ", strata::detail::escaped(names.front()), ", but it says that it is ",
                               task, " (", certificate_name(task), ")"));
    }
  } catch (const Error& error) {
    verdict = Status(ErrorCode::kUnauthenticated, error.what());
  }
  // A job is as good as a password where there are no certificates: it is not told.
  if (verdict.ok() && peer.hello.job != own_.hello.job) {
    verdict = Status(ErrorCode::kPermissionDenied,
                     str_cat(peer.hello.task, " is of another job than ", own_.hello.task));
  }
  if (verdict.ok() && judge_) verdict = judge_(peer.hello);
  if (verdict.ok() && peer.way != own_.way) {
    verdict =
        Status(ErrorCode::kPermissionDenied,
               str_cat(peer.hello.task, " sends over ", name_of(peer.way), ", ", own_.hello.task,
                       " over ", name_of(own_.way), "; choose one wire for all tasks"));
  }
  if (connects_) {
    if (!verdict.ok()) return fail(verdict);
    step_ = Step::kBegin;
    return;
  }
  status_ = verdict;
  out_ = verdict.ok() ? encode_greeting(own_) : encode_refusal(verdict);
  step_ = Step::kWrite;
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
    step_ = Step::kBegin;
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
  return !in_.empty();
}

bool Handshake::silent() const {
  const std::lock_guard lock(mutex_);
  return looked_at_ && in_.empty() && stream_ != nullptr && !stream_->heard_anything();
}

std::string Handshake::progress() const {
  const std::lock_guard lock(mutex_);
  if (step_ == Step::kEstablish) return "no connection yet";
  if (step_ == Step::kBegin) return "greetings went well, and no way for the data was found";
  return in_.empty() ? "connected, and no greeting came" : "half a greeting came";
}

std::unique_ptr<Stream> Handshake::take_stream() {
  const std::lock_guard lock(mutex_);
  return std::move(stream_);
}

}  // namespace strata::wire
