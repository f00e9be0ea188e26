// The sending half of a session: messages are begun, cut into frames and written.
#include <algorithm>
#include <limits>
#include <utility>

#include "wire/session/session.h"

namespace strata::wire {
namespace {

constexpr size_t kMaxFrames = 24;  // in one write
// Writes of one call of `send` or `receive` at most, so that it does not monopolise the connection.
constexpr int kWritesInCall = 4;

}  // namespace

Transfer Session::do_send(const Tag& tag, std::span<const std::byte> bytes) {
  auto* send = new SendOperation(weak_from_this(), tag, bytes.data(), bytes.size());
  Transfer transfer(send);
  send->add_reference();  // held by the session
  MutexLock lock(mutex_);
  if (const std::string* why = channel_failure(tag.channel)) {
    finish_failed(*send, ErrorCode::kFailedPrecondition, *why);
  } else if (!alive()) {
    finish_failed(*send, status_.code(), why_);
  } else if (closing_) {
    finish_failed(*send, ErrorCode::kCancelled, "the connection was closed here");
  } else {
    send_queue_.push_back({.send = send, .control = {}});
    write_now();
  }
  unlock_and_notify(lock);
  return transfer;
}

void Session::cancel_send(SendOperation& send) {
  MutexLock lock(mutex_);
  if (send.done()) return;
  send.add_reference();  // abort_send may drop the one of the session
  abort_send(send);
  finish_failed(send, ErrorCode::kCancelled, "it was cancelled");
  if (alive()) write_now();
  unlock_and_notify(lock);
}

// Stops reading the send's buffer, and tells the peer if it has begun. Drops the session's
// reference unless a kClearToSend or kReceivePosted is still to find the send.
void Session::abort_send(SendOperation& send) {
  if (send.message == 0) return;  // it will be sent as a message with the flag kCancelled
  bool writing = false;
  for (OutgoingFrame& frame : outgoing_) {
    if (frame.send != &send) continue;
    frame.own_bytes.assign(reinterpret_cast<const char*>(frame.bytes), frame.header.part);
    frame.bytes = nullptr;
    frame.send = nullptr;
    writing = true;
  }
  std::erase(cleared_sends_, &send);
  writing |= std::erase_if(unflushed_sends_,
                           [&](const UnflushedSend& each) { return each.send == &send; }) > 0;
  if (send.queued < send.size) add_urgent(FrameKind::kAbort, send.tag, send.message);
  const auto begun = active_sends_.find(send.message);
  if (begun == active_sends_.end()) {
    if (writing) send.drop_reference();
    return;
  }
  if (uncleared_sends_.contains(&send))
    return;  // its kClearToSend, or a kReceivePosted, must find it
  active_sends_.erase(begun);
  send.drop_reference();
}

bool Session::all_sent() const {
  return urgent_.empty() && send_queue_.empty() && cleared_sends_.empty() && outgoing_.empty() &&
         flushed_;
}

// Called by `send` and `receive`: a bounded number of writes.
void Session::write_now() {
  for (int i = 0; i < kWritesInCall && alive() && !blocked_ && !all_sent(); ++i) write_some();
  if (alive() && !blocked_ && !all_sent()) progress_->reschedule(key_);
}

// One write to the stream. @return whether bytes were written.
bool Session::write_some() {
  fill();
  if (outgoing_.empty()) {
    if (!flushed_) {
      const Stream::Outcome outcome = stream_->flush();
      flushed_ = outcome == Stream::Outcome::kMoved;
      complete_flushed();
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
      complete_flushed();
      return true;
    case Stream::Outcome::kBlocked:
      blocked_ = true;
      return false;
    case Stream::Outcome::kEnd:
    case Stream::Outcome::kFailed:
      // The peer may have sent the reason before it disconnected: read first.
      blocked_ = true;
      write_failure_ = stream_->status();
      progress_->reschedule(key_);
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
      frame.send->progressed(frame.send->written + frame.written - sizeof frame.header);
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
  active_sends_.erase(send->message);
  ++counts_.messages_sent;
  unflushed_sends_.push_back({.send = send, .until = stream_->bytes_produced()});
}

// A send completes only when its bytes are transmitted: after that the caller may stop driving the
// transport, and nothing would flush them.
void Session::complete_flushed() {
  while (!unflushed_sends_.empty() && unflushed_sends_.front().until <= stream_->bytes_flushed()) {
    SendOperation& send = *unflushed_sends_.front().send;
    unflushed_sends_.pop_front();
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
    } else if (!send_queue_.empty()) {
      begin_queued();
    } else if (!cleared_sends_.empty()) {
      add_data();
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
  frame.header.window_returned = static_cast<uint32_t>(
      std::min<uint64_t>(window_to_return_, std::numeric_limits<uint32_t>::max()));
  window_to_return_ -= frame.header.window_returned;
  return frame;
}

void Session::add_urgent(FrameKind kind, const Tag& tag, uint32_t message, std::string_view bytes) {
  OutgoingFrame frame;
  frame.header.kind = kind;
  frame.header.channel = tag.channel;
  frame.header.id = tag.id;
  frame.header.message = message;
  frame.header.part = static_cast<uint32_t>(bytes.size());
  frame.header.window_returned = static_cast<uint32_t>(
      std::min<uint64_t>(window_to_return_, std::numeric_limits<uint32_t>::max()));
  window_to_return_ -= frame.header.window_returned;
  frame.own_bytes = bytes;
  seal(frame.header);
  urgent_.push_back(std::move(frame));
}

// The first of to_begin_.
size_t Session::next_in_queue() {
  if (!options_.shuffle_seed || send_queue_.front().control.sent > 0) return 0;
  const size_t drawn = random_() % send_queue_.size();
  for (size_t i = 0; i < drawn; ++i) {
    const SendOperation* a = send_queue_[i].send;
    const SendOperation* b = send_queue_[drawn].send;
    const bool ordered = (a == nullptr && b == nullptr) ||
                         (a != nullptr && b != nullptr && a->tag.channel == b->tag.channel &&
                          a->tag.id == b->tag.id);
    if (ordered) return i;
  }
  return drawn;
}

void Session::begin_queued() {
  const size_t index = next_in_queue();
  QueuedSend& next = send_queue_[index];
  if (next.send != nullptr) {
    SendOperation& send = *next.send;
    send_queue_.erase(send_queue_.begin() + static_cast<ptrdiff_t>(index));
    return begin_send(send);
  }
  ControlMessage& control = next.control;
  const size_t part = std::min(control.text.size() - control.sent, kMaxPart);
  OutgoingFrame& frame =
      add_frame(FrameKind::kControl, {.channel = control.channel, .id = 0, .fingerprint = 0});
  frame.header.total = control.text.size();
  frame.header.part = static_cast<uint32_t>(part);
  frame.own_bytes = control.text.substr(control.sent, part);
  seal(frame.header);
  control.sent += part;
  control_bytes_to_send_ -= part;
  if (control.sent < control.text.size()) return;
  ++counts_.messages_sent;
  send_queue_.erase(send_queue_.begin() + static_cast<ptrdiff_t>(index));
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
  if (PeerReceive* peer_receive = peer_receives_.take(send.tag)) {
    delete peer_receive;
    header.flags = FrameHeader::kCleared;
    part = std::min(send.size, kMaxPart);
  } else if (part > 0) {
    if (send_window_left_ >= part + kMessageCost) {
      send_window_left_ -= part + kMessageCost;
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
  active_sends_.emplace(send.message, &send);
  if ((header.flags & FrameHeader::kCleared) != 0) {
    cleared_sends_.push_back(&send);
  } else {
    uncleared_sends_.push(&send);
  }
}

void Session::add_data() {
  SendOperation& send = *cleared_sends_.front();
  OutgoingFrame& frame = add_frame(FrameKind::kData, send.tag);
  const size_t part = std::min(send.size - send.queued, kMaxPart);
  frame.header.message = send.message;
  frame.header.total = send.size;
  frame.header.part = static_cast<uint32_t>(part);
  frame.bytes = send.bytes + send.queued;
  frame.send = &send;
  seal(frame.header);
  send.queued += part;
  if (send.queued == send.size) cleared_sends_.pop_front();
}

void Session::on_receive_posted() {
  const Tag tag = {.channel = header_.channel, .id = header_.id, .fingerprint = 0};
  if (SendOperation* send = uncleared_sends_.take(tag)) return start_cleared(*send);
  if (peer_receives_.size() >= kMaxUnmatched)
    return fail_locked(ErrorCode::kResourceExhausted,
                       str_cat("it waits for ", kMaxUnmatched, " messages that are not sent"),
                       true);
  peer_receives_.push(new PeerReceive{.tag = tag});
}

void Session::on_clear_to_send() {
  const auto found = active_sends_.find(header_.message);
  if (found == active_sends_.end() || !uncleared_sends_.remove(found->second))
    return;  // kReceivePosted has cleared it before
  start_cleared(*found->second);
}

void Session::start_cleared(SendOperation& send) {
  if (!send.done()) return cleared_sends_.push_back(&send);
  active_sends_.erase(send.message);  // it was cancelled
  send.drop_reference();
}

}  // namespace strata::wire
