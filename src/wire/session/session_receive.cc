// What comes: frames taken apart, messages matched with receives.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/log_limiter.h"
#include "strata/core/log.h"
#include "wire/session/session.h"

namespace strata::wire {
namespace {

// Below it a part goes through the staging buffer, together with what follows.
constexpr size_t kDirect = 8192;
// Room for the next header behind a part that is read in place.
constexpr size_t kBehindDirect = 512;

std::string hexadecimal(uint64_t value) {
  std::string text = "0x0000000000000000";
  for (size_t i = text.size(); value != 0; value >>= 4) text[--i] = "0123456789abcdef"[value & 15];
  return text;
}

std::string disagreement(std::string_view receiver, std::string_view sender,
                         const MismatchBody& body) {
  return str_cat(receiver, " receives ", body.expected_bytes, " bytes with fingerprint ",
                 hexadecimal(body.expected_fingerprint), " where ", sender, " sends ",
                 body.sent_bytes, " bytes with fingerprint ", hexadecimal(body.sent_fingerprint),
                 "; every task must make the same calls");
}

}  // namespace

Transfer Session::do_receive(const Tag& tag, std::span<std::byte> bytes) {
  auto* receive = new ReceiveOperation(weak_from_this(), tag, bytes.data(), bytes.size());
  Transfer transfer(receive);
  receive->add_reference();  // the session's
  std::unique_lock lock(mutex_);
  if (const std::string* why = poisoned(tag.channel)) {
    finish_failed(*receive, ErrorCode::kFailedPrecondition, *why);
  } else if (Incoming* incoming = waiting_.take(tag)) {
    match(*incoming, *receive);
  } else if (!alive()) {
    finish_failed(*receive, status_.code(), why_);
  } else if (closing_) {
    finish_failed(*receive, ErrorCode::kCancelled, "the connection was closed here");
  } else {
    receives_.push(receive);
    if (bytes.size() > std::min<uint64_t>(options_.peers_limit, kMaxPart))
      add_urgent(FrameKind::kCredit, tag, 0);
  }
  if (alive()) write_now();
  unlock_and_notify(lock);
  return transfer;
}

void Session::cancel_receive(ReceiveOperation& receive) {
  std::unique_lock lock(mutex_);
  if (receive.done()) return;
  const auto matched = std::ranges::find_if(
      incoming_, [&](const auto& incoming) { return incoming->receive == &receive; });
  const bool keeps_its_place = matched == incoming_.end();
  if (!keeps_its_place) {
    (*matched)->receive = nullptr;
    drop(**matched);
  } else {
    receive.add_reference();  // the queue's, which stays
  }
  finish_failed(receive, ErrorCode::kCancelled, "it was cancelled");
  unlock_and_notify(lock);
}

bool Session::read_some(bool& again) {
  iovec parts[2];
  size_t count = 0;
  const bool direct = into_ != nullptr && part_left_ >= kDirect;
  if (direct) {
    parts[count++] = {.iov_base = into_, .iov_len = std::min(part_left_, kMaxMove)};
  }
  if (!direct || part_left_ <= kMaxMove) {
    parts[count++] = {.iov_base = staging_.data(),
                      .iov_len = direct ? kBehindDirect : staging_read_};
  }
  const Stream::Result result = stream_->read({parts, count});
  switch (result.outcome) {
    case Stream::Outcome::kBlocked:
      seen_dry_ = true;
      return false;
    case Stream::Outcome::kEnd:
      if (closing_) {
        peer_ended_ = news_ = true;
      } else {
        fail_locked(ErrorCode::kUnavailable, "the peer is gone (end of stream without a goodbye)",
                    false);
      }
      return true;
    case Stream::Outcome::kFailed:
      fail_locked(stream_->status().code(), stream_->status().message(), false);
      return true;
    case Stream::Outcome::kMoved:
      break;
  }
  // No event tells of the end a second time, nor of what was before the first event.
  again = !result.drained || hung_up_ || !seen_dry_;
  counts_.bytes_received += result.bytes;
  const size_t in_place = direct ? std::min(result.bytes, parts[0].iov_len) : 0;
  if (in_place > 0) {
    into_ += in_place;
    part_left_ -= in_place;
    count_came(in_place);
    if (part_left_ == 0) end_frame();
  }
  take_in(staging_.data(), result.bytes - in_place);
  // What belongs to a large part is better read in place; many small frames at once.
  const bool many = !direct && result.bytes == staging_read_ && part_left_ < kDirect;
  staging_read_ = many ? staging_.size() : kSmallRead;
  return true;
}

void Session::take_in(const std::byte* bytes, size_t size) {
  while (size > 0 && alive()) {
    size_t taken = 0;
    if (part_left_ == 0) {
      taken = std::min(size, sizeof header_ - header_came_);
      std::memcpy(reinterpret_cast<std::byte*>(&header_) + header_came_, bytes, taken);
      header_came_ += taken;
      if (header_came_ == sizeof header_) {
        header_came_ = 0;
        begin_frame();
      }
    } else {
      taken = std::min(size, part_left_);
      if (append_to_ != nullptr) {
        append_to_->append(reinterpret_cast<const char*>(bytes), taken);
      } else if (into_ != nullptr) {
        std::memcpy(into_, bytes, taken);
        into_ += taken;
      }
      part_left_ -= taken;
      count_came(taken);
      if (part_left_ == 0) end_frame();
    }
    bytes += taken;
    size -= taken;
  }
}

void Session::count_came(size_t bytes) {
  if (current_ == nullptr) return;
  current_->came += bytes;
  if (current_->receive != nullptr) current_->receive->came(current_->came);
}

void Session::damaged(std::string_view what) {
  const std::string why = str_cat("the peer sent ", what, "; the connection is broken off");
  static strata::detail::LogLimiter limiter;  // a peer may come back and do it again
  if (const auto more = limiter.admit()) {
    STRATA_LOG(kWarning) << "[wire] " << name() << ": " << why << *more;
  }
  fail_locked(ErrorCode::kDataLoss, why, true);
}

void Session::begin_frame() {
  if (const char* what = why_damaged(header_)) return damaged(what);
  if (header_.freed > options_.peers_budget - budget_left_)
    return damaged("more budget than it had");
  if (peer_ended_) return damaged("a frame behind its goodbye");
  budget_left_ += header_.freed;
  part_left_ = header_.part;
  into_ = nullptr;
  current_ = nullptr;
  append_to_ = nullptr;
  switch (header_.kind) {
    case FrameKind::kMessage:
      begin_message();
      break;
    case FrameKind::kRest:
      begin_rest();
      break;
    case FrameKind::kText:
      begin_text();
      break;
    case FrameKind::kMismatch:
    case FrameKind::kGoodbye:
      body_.clear();
      append_to_ = &body_;
      break;
    default:
      break;
  }
  if (alive() && part_left_ == 0) end_frame();
}

void Session::end_frame() {
  switch (header_.kind) {
    case FrameKind::kMessage:
    case FrameKind::kRest:
      return end_part();
    case FrameKind::kText:
      if (text_.size() < header_.total) return;
      texts_bytes_ += text_.size() + kMessageCost;
      texts_[header_.channel].push_back(std::exchange(text_, {}));
      ++counts_.messages_received;
      news_ = true;
      if (texts_bytes_ > kMaxTexts)
        fail_locked(
            ErrorCode::kResourceExhausted,
            str_cat("it sent ", texts_bytes_, " bytes of control messages that nobody receives"),
            true);
      return;
    case FrameKind::kCredit:
      return on_credit();
    case FrameKind::kGrant:
      return on_grant();
    case FrameKind::kAbort:
      return on_abort();
    case FrameKind::kMismatch:
      return on_mismatch();
    case FrameKind::kGoodbye:
      return end_goodbye();
    case FrameKind::kFreed:
      return;
  }
}

// The parts of one text follow each other, as far as texts are concerned.
void Session::begin_text() {
  if (!text_.empty() && (text_channel_ != header_.channel || text_total_ != header_.total))
    return damaged("parts of two control messages in one");
  if (text_.size() + header_.part > header_.total)
    return damaged("more of a control message than there is");
  text_channel_ = header_.channel;
  text_total_ = header_.total;
  append_to_ = &text_;
}

Session::Incoming& Session::add_incoming() {
  if (spare_.empty()) spare_.push_back(std::make_unique<Incoming>());
  incoming_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  Incoming& incoming = *incoming_.back();
  incoming.index = incoming_.size() - 1;
  return incoming;
}

void Session::forget(Incoming& incoming) {
  if (current_ == &incoming) {
    current_ = nullptr;
    into_ = nullptr;
  }
  unfinished_.erase(incoming.message);
  const size_t index = incoming.index;
  std::swap(incoming_[index], incoming_.back());
  incoming_[index]->index = index;
  if (spare_.size() < 64) {
    *incoming_.back() = Incoming();
    spare_.push_back(std::move(incoming_.back()));
  }
  incoming_.pop_back();
}

void Session::begin_message() {
  const bool whole = (header_.flags & FrameHeader::kWhole) != 0;
  const bool cancelled = (header_.flags & FrameHeader::kCancelled) != 0;
  Incoming& incoming = add_incoming();
  incoming.tag = {.channel = header_.channel, .id = header_.id, .fingerprint = header_.fingerprint};
  incoming.message = header_.message;
  incoming.total = header_.total;
  incoming.cost = whole || header_.part == 0 ? 0 : header_.part + kMessageCost;
  incoming.wants_grant = !whole && header_.part < header_.total;
  incoming.aborted = cancelled;
  charged_ += incoming.cost;
  if (charged_ > options_.own_budget) return damaged("more than its budget allows");
  if (header_.part < header_.total && !unfinished_.emplace(header_.message, &incoming).second)
    return damaged("two messages of one number");
  current_ = &incoming;

  if (poisoned(header_.channel) != nullptr || closing_) return drop(incoming);
  if (ReceiveOperation* receive = receives_.take(incoming.tag)) {
    if (!receive->done()) return match(incoming, *receive);
    receive->drop_reference();  // it was cancelled, and kept its place for this
    accept_rest(incoming);
    return drop(incoming);
  }
  if (whole) return damaged("a whole message that nobody receives");
  if (waiting_.size() >= kMaxWaiting)
    return fail_locked(ErrorCode::kResourceExhausted,
                       str_cat("it began ", kMaxWaiting, " messages that nobody receives"), true);
  waiting_.push(&incoming);
  if (header_.part > 0) {
    incoming.kept = std::make_unique_for_overwrite<std::byte[]>(header_.part);
    into_ = incoming.kept.get();
  }
}

void Session::begin_rest() {
  const auto found = unfinished_.find(header_.message);
  if (found == unfinished_.end()) return damaged("more of a message that it did not begin");
  Incoming& incoming = *found->second;
  if (incoming.wants_grant) return damaged("more of a message than was granted");
  if (header_.total != incoming.total || header_.part > incoming.total - incoming.came)
    return damaged("more of a message than there is");
  current_ = &incoming;
  if (incoming.receive != nullptr) into_ = incoming.receive->bytes + incoming.came;
}

// The receiver is ready for all of it, and its budget is free again.
void Session::accept_rest(Incoming& incoming) {
  charged_ -= incoming.cost;
  freed_ += std::exchange(incoming.cost, 0);
  if (std::exchange(incoming.wants_grant, false))
    add_urgent(FrameKind::kGrant, incoming.tag, incoming.message);
  if (freed_ > 0 && freed_ >= options_.own_budget / 2) add_urgent(FrameKind::kFreed, {}, 0);
}

// Nobody wants it any more, or nobody may have it.
void Session::drop(Incoming& incoming) {
  charged_ -= incoming.cost;
  freed_ += std::exchange(incoming.cost, 0);
  incoming.dropped = true;
  incoming.wants_grant = false;  // a credit that crossed it may bring the rest all the same
  incoming.kept.reset();
  if (current_ == &incoming) into_ = nullptr;
  const bool being_read = current_ == &incoming && part_left_ > 0;
  if (incoming.came == incoming.total && !being_read) forget(incoming);
  // else: what is still to come finds it here; end_part or on_abort forgets it.
}

// `incoming` is in no queue, `receive` neither; the session's reference to `receive` comes along.
void Session::match(Incoming& incoming, ReceiveOperation& receive) {
  if (incoming.aborted) {
    accept_rest(incoming);
    finish_failed(receive, ErrorCode::kCancelled, "the peer has cancelled the send");
    drop(incoming);
    return;
  }
  if (incoming.tag.fingerprint != receive.tag.fingerprint || incoming.total != receive.size)
    return mismatch(incoming, receive);
  if (alive()) accept_rest(incoming);
  if (incoming.kept != nullptr) std::memcpy(receive.bytes, incoming.kept.get(), incoming.came);
  incoming.kept.reset();
  incoming.receive = &receive;
  receive.came(incoming.came);
  if (current_ == &incoming) into_ = receive.bytes + incoming.came;
  const bool being_read = current_ == &incoming;
  if (incoming.came == incoming.total && !being_read) {
    ++counts_.messages_received;
    forget(incoming);
    finish(receive, Status());
  }
}

void Session::mismatch(Incoming& incoming, ReceiveOperation& receive) {
  const MismatchBody body = {.sent_fingerprint = incoming.tag.fingerprint,
                             .sent_bytes = incoming.total,
                             .expected_fingerprint = receive.tag.fingerprint,
                             .expected_bytes = receive.size};
  const Tag tag = incoming.tag;
  const std::string why = disagreement(options_.own_task, peer().task, body);
  if (alive()) {
    add_urgent(FrameKind::kMismatch, tag, incoming.message,
               {reinterpret_cast<const char*>(&body), sizeof body});
  }
  finish_failed(receive, ErrorCode::kFailedPrecondition, why);
  drop(incoming);
  poison(tag.channel, why);
}

void Session::end_part() {
  if (current_ == nullptr) return;
  Incoming& incoming = *std::exchange(current_, nullptr);
  into_ = nullptr;
  if (incoming.came < incoming.total) return;
  if (incoming.dropped) return forget(incoming);
  if (incoming.receive == nullptr) return;  // it waits
  ++counts_.messages_received;
  ReceiveOperation& receive = *incoming.receive;
  forget(incoming);
  finish(receive, Status());
}

void Session::on_abort() {
  const auto found = unfinished_.find(header_.message);
  if (found == unfinished_.end()) return;
  Incoming& incoming = *found->second;
  if (incoming.dropped) return forget(incoming);
  if (incoming.receive != nullptr) {
    ReceiveOperation& receive = *incoming.receive;
    forget(incoming);
    return finish_failed(receive, ErrorCode::kCancelled, "the peer has cancelled the send");
  }
  // It keeps its place, for the receive that it ends.
  incoming.aborted = true;
  incoming.came = incoming.total;
  incoming.kept.reset();
  unfinished_.erase(incoming.message);
}

void Session::on_mismatch() {
  MismatchBody body;
  std::memcpy(&body, body_.data(), sizeof body);
  poison(header_.channel, disagreement(peer().task, options_.own_task, body));
}

void Session::end_goodbye() {
  peer_ended_ = true;
  news_ = true;
  const std::string reason = std::exchange(body_, {});
  if (closing_) return;
  fail_locked(ErrorCode::kUnavailable,
              reason.empty() ? "the peer has closed the connection"
                             : str_cat("the peer has ended the connection: ", reason),
              true);
}

}  // namespace strata::wire
