// The receiving half of a session: frames are parsed, messages matched with posted receives.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/log_limiter.h"
#include "strata/core/log.h"
#include "wire/session/session.h"

namespace strata::wire {
namespace {

// Smaller parts are read through the staging buffer, together with the frames behind them.
constexpr size_t kDirect = 8192;
// Bytes of the staging buffer that are read behind a part that is read in place.
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
  receive->add_reference();  // held by the session
  MutexLock lock(mutex_);
  if (const std::string* why = channel_failure(tag.channel)) {
    finish_failed(*receive, ErrorCode::kFailedPrecondition, *why);
  } else if (Incoming* incoming = unexpected_messages_.take(tag)) {
    match(*incoming, *receive);
  } else if (!alive()) {
    finish_failed(*receive, status_.code(), why_);
  } else if (closing_) {
    finish_failed(*receive, ErrorCode::kCancelled, "the connection was closed here");
  } else {
    posted_receives_.push(receive);
    if (bytes.size() > std::min<uint64_t>(options_.peer_eager_limit, kMaxPart))
      add_urgent(FrameKind::kReceivePosted, tag, 0);
  }
  if (alive()) write_now();
  unlock_and_notify(lock);
  return transfer;
}

void Session::cancel_receive(ReceiveOperation& receive) {
  MutexLock lock(mutex_);
  if (receive.done()) return;
  const auto matched = std::ranges::find_if(
      incoming_, [&](const auto& incoming) { return incoming->receive == &receive; });
  const bool keeps_its_place = matched == incoming_.end();
  if (!keeps_its_place) {
    (*matched)->receive = nullptr;
    drop(**matched);
  } else {
    receive.add_reference();  // held by posted_receives_, where it stays
  }
  finish_failed(receive, ErrorCode::kCancelled, "it was cancelled");
  unlock_and_notify(lock);
}

bool Session::read_some(bool& reschedule) {
  iovec parts[2];
  size_t count = 0;
  const bool direct = destination_ != nullptr && part_remaining_ >= kDirect;
  if (direct) {
    parts[count++] = {.iov_base = destination_, .iov_len = std::min(part_remaining_, kMaxMove)};
  }
  if (!direct || part_remaining_ <= kMaxMove) {
    parts[count++] = {.iov_base = staging_.data(),
                      .iov_len = direct ? kBehindDirect : staging_read_};
  }
  const Stream::Result result = stream_->read({parts, count});
  switch (result.outcome) {
    case Stream::Outcome::kBlocked:
      read_would_block_ = true;
      return false;
    case Stream::Outcome::kEnd:
      if (closing_) {
        peer_ended_ = notify_pending_ = true;
      } else {
        fail_locked(ErrorCode::kUnavailable,
                    "the peer has disconnected (end of stream without a go-away frame)", false);
      }
      return true;
    case Stream::Outcome::kFailed:
      fail_locked(stream_->status().code(), stream_->status().message(), false);
      return true;
    case Stream::Outcome::kMoved:
      break;
  }
  // The reactor is edge triggered: it reports neither the end of the stream twice, nor what had
  // arrived before the stream was watched.
  reschedule = !result.drained || hung_up_ || !read_would_block_;
  counts_.bytes_received += result.bytes;
  const size_t in_place = direct ? std::min(result.bytes, parts[0].iov_len) : 0;
  if (in_place > 0) {
    destination_ += in_place;
    part_remaining_ -= in_place;
    count_arrived(in_place);
    if (part_remaining_ == 0) end_frame();
  }
  parse(staging_.data(), result.bytes - in_place);
  // Read much at a time while frames are small; a large part is read in place.
  const bool many = !direct && result.bytes == staging_read_ && part_remaining_ < kDirect;
  staging_read_ = many ? staging_.size() : kSmallRead;
  return true;
}

void Session::parse(const std::byte* bytes, size_t size) {
  while (size > 0 && alive()) {
    size_t taken = 0;
    if (part_remaining_ == 0) {
      taken = std::min(size, sizeof header_ - header_received_);
      std::memcpy(reinterpret_cast<std::byte*>(&header_) + header_received_, bytes, taken);
      header_received_ += taken;
      if (header_received_ == sizeof header_) {
        header_received_ = 0;
        begin_frame();
      }
    } else {
      taken = std::min(size, part_remaining_);
      if (append_to_ != nullptr) {
        append_to_->append(reinterpret_cast<const char*>(bytes), taken);
      } else if (destination_ != nullptr) {
        std::memcpy(destination_, bytes, taken);
        destination_ += taken;
      }
      part_remaining_ -= taken;
      count_arrived(taken);
      if (part_remaining_ == 0) end_frame();
    }
    bytes += taken;
    size -= taken;
  }
}

void Session::count_arrived(size_t bytes) {
  if (current_ == nullptr) return;
  current_->arrived += bytes;
  if (current_->receive != nullptr) current_->receive->arrived(current_->arrived);
}

void Session::damaged(std::string_view what) {
  const std::string why = str_cat("the peer sent ", what, "; the connection is closed");
  static strata::detail::LogLimiter limiter;  // a peer may come back and do it again
  if (const auto more = limiter.admit()) {
    STRATA_LOG(kWarning) << "[wire] " << name() << ": " << why << *more;
  }
  fail_locked(ErrorCode::kDataLoss, why, true);
}

void Session::begin_frame() {
  if (const char* what = why_damaged(header_)) return damaged(what);
  if (header_.window_returned > options_.send_window - send_window_left_)
    return damaged("a window update of more than it had used");
  if (peer_ended_) return damaged("a frame after its go-away frame");
  send_window_left_ += header_.window_returned;
  part_remaining_ = header_.part;
  destination_ = nullptr;
  current_ = nullptr;
  append_to_ = nullptr;
  switch (header_.kind) {
    case FrameKind::kMessage:
      begin_message();
      break;
    case FrameKind::kData:
      begin_data();
      break;
    case FrameKind::kControl:
      begin_control();
      break;
    case FrameKind::kMismatch:
    case FrameKind::kGoAway:
      body_.clear();
      append_to_ = &body_;
      break;
    default:
      break;
  }
  if (alive() && part_remaining_ == 0) end_frame();
}

void Session::end_frame() {
  switch (header_.kind) {
    case FrameKind::kMessage:
    case FrameKind::kData:
      return end_part();
    case FrameKind::kControl:
      if (control_text_.size() < header_.total) return;
      control_bytes_ += control_text_.size() + kMessageCost;
      control_messages_[header_.channel].push_back(std::exchange(control_text_, {}));
      ++counts_.messages_received;
      notify_pending_ = true;
      if (control_bytes_ > kMaxControlBytes)
        fail_locked(
            ErrorCode::kResourceExhausted,
            str_cat("it sent ", control_bytes_, " bytes of control messages that are not received"),
            true);
      return;
    case FrameKind::kReceivePosted:
      return on_receive_posted();
    case FrameKind::kClearToSend:
      return on_clear_to_send();
    case FrameKind::kAbort:
      return on_abort();
    case FrameKind::kMismatch:
      return on_mismatch();
    case FrameKind::kGoAway:
      return on_go_away();
    case FrameKind::kWindowUpdate:
      return;
  }
}

// The parts of a control message are not interleaved with those of another one.
void Session::begin_control() {
  if (!control_text_.empty() &&
      (control_channel_ != header_.channel || control_total_ != header_.total))
    return damaged("parts of two control messages in one");
  if (control_text_.size() + header_.part > header_.total)
    return damaged("data beyond the end of its control message");
  control_channel_ = header_.channel;
  control_total_ = header_.total;
  append_to_ = &control_text_;
}

Session::Incoming& Session::add_incoming() {
  if (spare_.empty()) spare_.push_back(std::make_unique<Incoming>());
  incoming_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  Incoming& incoming = *incoming_.back();
  incoming.index = incoming_.size() - 1;
  return incoming;
}

void Session::release(Incoming& incoming) {
  if (current_ == &incoming) {
    current_ = nullptr;
    destination_ = nullptr;
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
  const bool whole = (header_.flags & FrameHeader::kCleared) != 0;
  const bool cancelled = (header_.flags & FrameHeader::kCancelled) != 0;
  Incoming& incoming = add_incoming();
  incoming.tag = {.channel = header_.channel, .id = header_.id, .fingerprint = header_.fingerprint};
  incoming.message = header_.message;
  incoming.total = header_.total;
  incoming.cost = whole || header_.part == 0 ? 0 : header_.part + kMessageCost;
  incoming.wants_clearance = !whole && header_.part < header_.total;
  incoming.aborted = cancelled;
  receive_window_used_ += incoming.cost;
  if (receive_window_used_ > options_.receive_window)
    return damaged("more than the receive window allows");
  if (header_.part < header_.total && !unfinished_.emplace(header_.message, &incoming).second)
    return damaged("two messages of one number");
  current_ = &incoming;

  if (channel_failure(header_.channel) != nullptr || closing_) return drop(incoming);
  if (ReceiveOperation* receive = posted_receives_.take(incoming.tag)) {
    if (!receive->done()) return match(incoming, *receive);
    receive->drop_reference();  // it was cancelled, and has waited for this message
    clear_to_send(incoming);
    return drop(incoming);
  }
  if (whole) return damaged("a cleared message without a posted receive");
  if (unexpected_messages_.size() >= kMaxUnmatched)
    return fail_locked(ErrorCode::kResourceExhausted,
                       str_cat("it began ", kMaxUnmatched, " messages that are not received"),
                       true);
  unexpected_messages_.push(&incoming);
  if (header_.part > 0) {
    incoming.payload = std::make_unique_for_overwrite<std::byte[]>(header_.part);
    destination_ = incoming.payload.get();
  }
}

void Session::begin_data() {
  const auto found = unfinished_.find(header_.message);
  if (found == unfinished_.end()) return damaged("data of an unknown message");
  Incoming& incoming = *found->second;
  if (incoming.wants_clearance) return damaged("data before clear-to-send");
  if (header_.total != incoming.total || header_.part > incoming.total - incoming.arrived)
    return damaged("data beyond the end of its message");
  current_ = &incoming;
  if (incoming.receive != nullptr) destination_ = incoming.receive->bytes + incoming.arrived;
}

// The receive is known: returns the message's share of the window, and asks for the rest.
void Session::clear_to_send(Incoming& incoming) {
  receive_window_used_ -= incoming.cost;
  window_to_return_ += std::exchange(incoming.cost, 0);
  if (std::exchange(incoming.wants_clearance, false))
    add_urgent(FrameKind::kClearToSend, incoming.tag, incoming.message);
  if (window_to_return_ > 0 && window_to_return_ >= options_.receive_window / 2)
    add_urgent(FrameKind::kWindowUpdate, {}, 0);
}

// Discards a message, and what of it is still to arrive.
void Session::drop(Incoming& incoming) {
  receive_window_used_ -= incoming.cost;
  window_to_return_ += std::exchange(incoming.cost, 0);
  incoming.dropped = true;
  incoming.wants_clearance = false;  // after a kReceivePosted the rest may arrive all the same
  incoming.payload.reset();
  if (current_ == &incoming) destination_ = nullptr;
  const bool being_read = current_ == &incoming && part_remaining_ > 0;
  if (incoming.arrived == incoming.total && !being_read) release(incoming);
  // Otherwise end_part or on_abort releases it.
}

// Takes over the session's reference to `receive`. Neither is in a queue.
void Session::match(Incoming& incoming, ReceiveOperation& receive) {
  if (incoming.aborted) {
    clear_to_send(incoming);
    finish_failed(receive, ErrorCode::kCancelled, "the peer has cancelled the send");
    drop(incoming);
    return;
  }
  if (incoming.tag.fingerprint != receive.tag.fingerprint || incoming.total != receive.size)
    return mismatch(incoming, receive);
  if (alive()) clear_to_send(incoming);
  if (incoming.payload != nullptr)
    std::memcpy(receive.bytes, incoming.payload.get(), incoming.arrived);
  incoming.payload.reset();
  incoming.receive = &receive;
  receive.arrived(incoming.arrived);
  if (current_ == &incoming) destination_ = receive.bytes + incoming.arrived;
  const bool being_read = current_ == &incoming;
  if (incoming.arrived == incoming.total && !being_read) {
    ++counts_.messages_received;
    release(incoming);
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
  fail_channel(tag.channel, why);
}

void Session::end_part() {
  if (current_ == nullptr) return;
  Incoming& incoming = *std::exchange(current_, nullptr);
  destination_ = nullptr;
  if (incoming.arrived < incoming.total) return;
  if (incoming.dropped) return release(incoming);
  if (incoming.receive == nullptr) return;  // complete, and unexpected
  ++counts_.messages_received;
  ReceiveOperation& receive = *incoming.receive;
  release(incoming);
  finish(receive, Status());
}

void Session::on_abort() {
  const auto found = unfinished_.find(header_.message);
  if (found == unfinished_.end()) return;
  Incoming& incoming = *found->second;
  if (incoming.dropped) return release(incoming);
  if (incoming.receive != nullptr) {
    ReceiveOperation& receive = *incoming.receive;
    release(incoming);
    return finish_failed(receive, ErrorCode::kCancelled, "the peer has cancelled the send");
  }
  // Keep it: the receive that matches it is cancelled.
  incoming.aborted = true;
  incoming.arrived = incoming.total;
  incoming.payload.reset();
  unfinished_.erase(incoming.message);
}

void Session::on_mismatch() {
  MismatchBody body;
  std::memcpy(&body, body_.data(), sizeof body);
  fail_channel(header_.channel, disagreement(peer().task, options_.own_task, body));
}

void Session::on_go_away() {
  peer_ended_ = true;
  notify_pending_ = true;
  const std::string reason = std::exchange(body_, {});
  if (closing_) return;
  fail_locked(ErrorCode::kUnavailable,
              reason.empty() ? "the peer has closed the connection"
                             : str_cat("the peer has ended the connection: ", reason),
              true);
}

}  // namespace strata::wire
