// What goes: messages begun, continued, cut into frames and written.
#include <algorithm>
#include <limits>
#include <utility>

#include "wire/session/session.h"

namespace strata::wire {
namespace {

constexpr size_t kMaxFrames = 24;  // being written at once
// What a call that sends writes at most before it lets others have the connection.
constexpr int kWritesInCall = 4;

}  // namespace

Transfer Session::do_send(const Tag& tag, std::span<const std::byte> bytes) {
  auto* send = new SendOperation(weak_from_this(), tag, bytes.data(), bytes.size());
  Transfer transfer(send);
  send->add_reference();  // the session's
  std::unique_lock lock(mutex_);
  if (const std::string* why = poisoned(tag.channel)) {
    finish_failed(*send, ErrorCode::kFailedPrecondition, *why);
  } else if (!alive()) {
    finish_failed(*send, status_.code(), why_);
  } else if (closing_) {
    finish_failed(*send, ErrorCode::kCancelled, "the connection was closed here");
  } else {
    to_begin_.push_back({.send = send, .text = {}});
    write_now();
  }
  unlock_and_notify(lock);
  return transfer;
}

void Session::cancel_send(SendOperation& send) {
  std::unique_lock lock(mutex_);
  if (send.done()) return;
  send.add_reference();  // abandon may drop the session's
  abandon(send);
  finish_failed(send, ErrorCode::kCancelled, "it was cancelled");
  if (alive()) write_now();
  unlock_and_notify(lock);
}

// Its buffer is not touched from here on, and the peer is told where it must be. Drops the
// session's reference unless something must still be there to be found.
void Session::abandon(SendOperation& send) {
  if (send.message == 0) return;  // it begins, and ends, as a cancelled message
  bool writing = false;
  for (OutgoingFrame& frame : outgoing_) {
    if (frame.send != &send) continue;
    frame.own_bytes.assign(reinterpret_cast<const char*>(frame.bytes), frame.header.part);
    frame.bytes = nullptr;
    frame.send = nullptr;
    writing = true;
  }
  std::erase(granted_, &send);
  writing |= std::erase_if(kept_, [&](const Kept& each) { return each.send == &send; }) > 0;
  if (send.queued < send.size) add_urgent(FrameKind::kAbort, send.tag, send.message);
  const auto begun = begun_.find(send.message);
  if (begun == begun_.end()) {
    if (writing) send.drop_reference();
    return;
  }
  if (ungranted_.contains(&send)) return;  // the grant, or a credit, must find it
  begun_.erase(begun);
  send.drop_reference();
}

bool Session::nothing_to_send() const {
  return urgent_.empty() && to_begin_.empty() && granted_.empty() && outgoing_.empty() && flushed_;
}

// In a call: as much as goes without keeping others waiting for long.
void Session::write_now() {
  for (int i = 0; i < kWritesInCall && alive() && !blocked_ && !nothing_to_send(); ++i)
    write_some();
  if (alive() && !blocked_ && !nothing_to_send()) progress_->again(key_);
}

// One call of the stream. @return whether bytes went.
bool Session::write_some() {
  fill();
  if (outgoing_.empty()) {
    if (!flushed_) {
      const Stream::Outcome outcome = stream_->flush();
      flushed_ = outcome == Stream::Outcome::kMoved;
      settle_kept();
      blocked_ = outcome == Stream::Outcome::kBlocked;
      if (outcome == Stream::Outcome::kFailed)
        fail_locked(stream_->status().code(), stream_->status().message(), false);
    }
    return false;
  }
  iovec parts[2 * kMaxFrames];
  size_t count = 0;
  size_t size = 0;
  const auto add = [&](const void* bytes, size_t length, size_t skip) {
    length = std::min(length - std::min(length, skip), kMaxMove - size);
    if (length == 0) return;
    parts[count++] = {.iov_base = const_cast<char*>(static_cast<const char*>(bytes)) + skip,
                      .iov_len = length};
    size += length;
  };
  for (OutgoingFrame& frame : outgoing_) {
    if (size == kMaxMove || count + 2 > std::size(parts)) break;
    const size_t in_body = frame.written - std::min(frame.written, sizeof frame.header);
    add(&frame.header, sizeof frame.header, frame.written);
    const void* body =
        frame.bytes != nullptr ? static_cast<const void*>(frame.bytes) : frame.own_bytes.data();
    add(body, frame.header.part, in_body);
  }
  const Stream::Result result = stream_->write({parts, count});
  switch (result.outcome) {
    case Stream::Outcome::kMoved:
      written(result.bytes);
      flushed_ = stream_->flush() == Stream::Outcome::kMoved;
      settle_kept();
      return true;
    case Stream::Outcome::kBlocked:
      blocked_ = true;
      return false;
    case Stream::Outcome::kEnd:
    case Stream::Outcome::kFailed:
      // What the peer has said before it went may explain it.
      blocked_ = true;
      write_failure_ = stream_->status();
      progress_->again(key_);
      return false;
  }
  return false;
}

void Session::written(size_t bytes) {
  counts_.bytes_sent += bytes;
  while (bytes > 0) {
    OutgoingFrame& frame = outgoing_.front();
    const size_t size = sizeof frame.header + frame.header.part;
    const size_t taken = std::min(bytes, size - frame.written);
    frame.written += taken;
    if (frame.send != nullptr && frame.written > sizeof frame.header)
      frame.send->gone(frame.send->written + frame.written - sizeof frame.header);
    bytes -= taken;
    if (frame.written < size) return;
    sent(frame);
    outgoing_.pop_front();
  }
}

void Session::sent(OutgoingFrame& frame) {
  SendOperation* send = frame.send;
  if (send == nullptr) return;
  send->written += frame.header.part;
  if (send->written < send->size) return;
  begun_.erase(send->message);
  ++counts_.messages_sent;
  kept_.push_back({.send = send, .until = stream_->made()});
}

// Before that they are not done: perhaps nobody makes progress here once they are.
void Session::settle_kept() {
  while (!kept_.empty() && kept_.front().until <= stream_->passed_on()) {
    SendOperation& send = *kept_.front().send;
    kept_.pop_front();
    finish(send, Status());
  }
}

void Session::fill() {
  size_t size = 0;
  for (const OutgoingFrame& frame : outgoing_) size += sizeof frame.header + frame.header.part;
  while (size < kMaxMove && outgoing_.size() < kMaxFrames) {
    if (!urgent_.empty()) {
      outgoing_.push_back(std::move(urgent_.front()));
      urgent_.pop_front();
    } else if (!to_begin_.empty()) {
      begin_next();
    } else if (!granted_.empty()) {
      add_rest();
    } else {
      return;
    }
    size += sizeof(FrameHeader) + outgoing_.back().header.part;
  }
}

Session::OutgoingFrame& Session::add_frame(FrameKind kind, const Tag& tag) {
  OutgoingFrame& frame = outgoing_.emplace_back();
  frame.header.kind = kind;
  frame.header.channel = tag.channel;
  frame.header.id = tag.id;
  frame.header.fingerprint = tag.fingerprint;
  frame.header.freed =
      static_cast<uint32_t>(std::min<uint64_t>(freed_, std::numeric_limits<uint32_t>::max()));
  freed_ -= frame.header.freed;
  return frame;
}

void Session::add_urgent(FrameKind kind, const Tag& tag, uint32_t message, std::string_view bytes) {
  OutgoingFrame frame;
  frame.header.kind = kind;
  frame.header.channel = tag.channel;
  frame.header.id = tag.id;
  frame.header.message = message;
  frame.header.part = static_cast<uint32_t>(bytes.size());
  frame.header.freed =
      static_cast<uint32_t>(std::min<uint64_t>(freed_, std::numeric_limits<uint32_t>::max()));
  freed_ -= frame.header.freed;
  frame.own_bytes = bytes;
  seal(frame.header);
  urgent_.push_back(std::move(frame));
}

// What of to_begin_ goes first.
size_t Session::next_to_begin() {
  if (!options_.shuffle_seed || to_begin_.front().text.sent > 0) return 0;
  const size_t drawn = random_() % to_begin_.size();
  for (size_t i = 0; i < drawn; ++i) {
    const SendOperation* a = to_begin_[i].send;
    const SendOperation* b = to_begin_[drawn].send;
    const bool ordered = (a == nullptr && b == nullptr) ||
                         (a != nullptr && b != nullptr && a->tag.channel == b->tag.channel &&
                          a->tag.id == b->tag.id);
    if (ordered) return i;
  }
  return drawn;
}

void Session::begin_next() {
  const size_t index = next_to_begin();
  ToBegin& next = to_begin_[index];
  if (next.send != nullptr) {
    SendOperation& send = *next.send;
    to_begin_.erase(to_begin_.begin() + static_cast<ptrdiff_t>(index));
    return begin_send(send);
  }
  Text& text = next.text;
  const size_t part = std::min(text.text.size() - text.sent, kMaxPart);
  OutgoingFrame& frame =
      add_frame(FrameKind::kText, {.channel = text.channel, .id = 0, .fingerprint = 0});
  frame.header.total = text.text.size();
  frame.header.part = static_cast<uint32_t>(part);
  frame.own_bytes = text.text.substr(text.sent, part);
  seal(frame.header);
  text.sent += part;
  texts_to_send_ -= part;
  if (text.sent < text.text.size()) return;
  ++counts_.messages_sent;
  to_begin_.erase(to_begin_.begin() + static_cast<ptrdiff_t>(index));
}

void Session::begin_send(SendOperation& send) {
  OutgoingFrame& frame = add_frame(FrameKind::kMessage, send.tag);
  FrameHeader& header = frame.header;
  send.message = next_message_++;
  if (next_message_ == 0) next_message_ = 1;
  header.message = send.message;
  if (send.done()) {
    header.flags = FrameHeader::kCancelled;
    seal(header);
    send.drop_reference();
    return;
  }
  header.total = send.size;
  size_t part = std::min({send.size, options_.eager_limit, kMaxPart});
  if (Credit* credit = credits_.take(send.tag)) {
    delete credit;
    header.flags = FrameHeader::kWhole;
    part = std::min(send.size, kMaxPart);
  } else if (part > 0) {
    if (budget_left_ >= part + kMessageCost) {
      budget_left_ -= part + kMessageCost;
    } else {
      part = 0;
    }
  }
  header.part = static_cast<uint32_t>(part);
  frame.bytes = send.bytes;
  frame.send = &send;
  send.queued = part;
  seal(header);
  if (part == send.size) return;
  begun_.emplace(send.message, &send);
  if ((header.flags & FrameHeader::kWhole) != 0) {
    granted_.push_back(&send);
  } else {
    ungranted_.push(&send);
  }
}

void Session::add_rest() {
  SendOperation& send = *granted_.front();
  OutgoingFrame& frame = add_frame(FrameKind::kRest, send.tag);
  const size_t part = std::min(send.size - send.queued, kMaxPart);
  frame.header.message = send.message;
  frame.header.total = send.size;
  frame.header.part = static_cast<uint32_t>(part);
  frame.bytes = send.bytes + send.queued;
  frame.send = &send;
  seal(frame.header);
  send.queued += part;
  if (send.queued == send.size) granted_.pop_front();
}

void Session::on_credit() {
  const Tag tag = {.channel = header_.channel, .id = header_.id, .fingerprint = 0};
  if (SendOperation* send = ungranted_.take(tag)) return grant(*send);
  if (credits_.size() >= kMaxWaiting)
    return fail_locked(ErrorCode::kResourceExhausted,
                       str_cat("it waits for ", kMaxWaiting, " messages that nobody sends"), true);
  credits_.push(new Credit{.tag = tag});
}

void Session::on_grant() {
  const auto found = begun_.find(header_.message);
  if (found == begun_.end() || !ungranted_.remove(found->second)) return;  // a credit came first
  grant(*found->second);
}

void Session::grant(SendOperation& send) {
  if (!send.done()) return granted_.push_back(&send);
  begun_.erase(send.message);  // it was cancelled
  send.drop_reference();
}

}  // namespace strata::wire
