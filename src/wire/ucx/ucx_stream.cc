#include "wire/ucx/ucx_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace strata::wire {
namespace {

constexpr std::chrono::milliseconds kStillComing(200);
constexpr size_t kMaxAddress = size_t{64} << 10;

void put_word(std::string& out, uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint64_t word_at(const std::string& bytes, size_t offset) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

}  // namespace

void UcxStream::watch(uint64_t key) {
  {
    const MutexLock lock(worker_.mutex());
    key_ = key;
  }
  tcp_->watch(key);
}

Stream::Outcome UcxStream::establish() {
  const Outcome outcome = tcp_->establish();
  return outcome == Outcome::kFailed
             ? failed(tcp_->status().code(), std::string(tcp_->status().message()))
             : outcome;
}

// Ends when bytes have been sent over the endpoint in both directions: from then on a send needs no
// help here to make progress, as with a socket.
Stream::Outcome UcxStream::upgrade() {
  const MutexLock lock(worker_.mutex());
  if (!std::exchange(begun_, true)) {
    id_ = worker_.add(*this);
    put_word(to_tell_, id_);
    put_word(to_tell_, worker_.address().size());
    to_tell_ += worker_.address();
  }
  flush_tcp();
  look_at_tcp();
  if (endpoint_ != nullptr && !std::exchange(told_hello_, true)) {
    const Status status = worker_.send(endpoint_, id_, peers_id_, 0, {});
    if (!status.ok()) fail(status);
  }
  if (!failure_ && endpoint_failure_) failure_ = endpoint_failure_;
  if (failure_) return failed(failure_->code(), std::string(failure_->message()));
  if (heard_hello_ && to_tell_.empty()) return Outcome::kMoved;
  if (tcp_ended_) return failed(ErrorCode::kUnavailable, "it closed the connection after hello");
  return Outcome::kBlocked;
}

// @return whether nothing is left of it.
bool UcxStream::flush_tcp() {
  while (!to_tell_.empty()) {
    const iovec part = {.iov_base = to_tell_.data(), .iov_len = to_tell_.size()};
    const Result result = tcp_->write({&part, 1});
    if (result.outcome != Outcome::kMoved) return false;
    to_tell_.erase(0, result.bytes);
  }
  if (std::exchange(ended_, false)) tcp_->end();
  return true;
}

void UcxStream::fail(Status why) {
  if (!failure_) failure_ = std::move(why);
  worker_.announce(key_);
}

void UcxStream::look_at_tcp() {
  while (!tcp_ended_) {
    char bytes[4096];
    const iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    const Result result = tcp_->read({&part, 1});
    if (result.outcome == Outcome::kBlocked) break;
    if (result.outcome != Outcome::kMoved) {
      tcp_ended_ = true;
      break;
    }
    told_.append(bytes, result.bytes);
    if (told_.size() > kMaxAddress + 32) {
      return fail({ErrorCode::kDataLoss, "the peer sent an invalid UCX address"});
    }
  }
  if (endpoint_ == nullptr) hear_address();
  if (endpoint_ != nullptr && !end_at_ && told_.size() >= sizeof(uint64_t)) {
    end_at_ = word_at(told_, 0);
  }
}

void UcxStream::hear_address() {
  constexpr size_t kBefore = 2 * sizeof(uint64_t);
  if (told_.size() < kBefore) return;
  const uint64_t size = word_at(told_, sizeof(uint64_t));
  if (size == 0 || size > kMaxAddress) {
    return fail({ErrorCode::kDataLoss, "the peer sent an invalid UCX address"});
  }
  if (told_.size() < kBefore + size) return;
  peers_id_ = word_at(told_, 0);
  const Status status =
      worker_.connect(std::string_view(told_).substr(kBefore, size), *this, endpoint_);
  if (!status.ok()) return fail(status);
  told_.erase(0, kBefore + size);
}

void UcxStream::came(uint64_t offset, std::byte* bytes, size_t size) {
  // What the window does not allow, or was there already, is nothing that a strata peer sends.
  if (offset < came_ || offset + size > read_ + kWindow || ahead_.contains(offset)) {
    worker_.release(bytes);
    return fail({ErrorCode::kDataLoss, "the peer sent more than it may"});
  }
  ahead_[offset] = {.bytes = bytes, .size = size};
  while (!ahead_.empty() && ahead_.begin()->first == came_) {
    pieces_.push_back(ahead_.begin()->second);
    came_ += ahead_.begin()->second.size;
    ahead_.erase(ahead_.begin());
  }
  worker_.announce(key_);
}

void UcxStream::taken(uint64_t bytes) {
  if (bytes > sent_) return fail({ErrorCode::kDataLoss, "the peer took more than there was"});
  const bool waited = sent_ - taken_ >= kWindow || !std::exchange(heard_hello_, true);
  taken_ = std::max(taken_, bytes);
  if (waited) worker_.announce(key_);
}

void UcxStream::passed(size_t bytes) {
  flushed_bytes_ += bytes;
  if (bytes > 0 && flushed_bytes_ == sent_) worker_.announce(key_);
}

// The peer has closed it, or is lost, which TCP reports; or this endpoint is broken, and the peer
// is informed.
void UcxStream::endpoint_failed(const Status& why) {
  endpoint_failure_ = why;
  tcp_->end();
  worker_.announce(key_);
}

uint64_t UcxStream::bytes_flushed() const {
  const MutexLock lock(worker_.mutex());
  return flushed_bytes_;
}

Stream::Result UcxStream::write(std::span<const iovec> parts) {
  if (!begun_) return tcp_->write(parts);
  const MutexLock lock(worker_.mutex());
  flush_tcp();
  if (failure_) return {failed(failure_->code(), std::string(failure_->message()))};
  if (endpoint_failure_) {
    return {failed(endpoint_failure_->code(), std::string(endpoint_failure_->message()))};
  }
  if (endpoint_ == nullptr) return {Outcome::kBlocked};
  size_t total = 0;
  size_t part = 0;
  size_t offset = 0;
  while (part < parts.size()) {
    size_t room = std::min<uint64_t>(UcxWorker::kChunk, kWindow - (sent_ - taken_));
    iovec chosen[16];
    size_t count = 0;
    size_t size = 0;
    while (room > 0 && part < parts.size() && count < std::size(chosen)) {
      const size_t more = std::min(parts[part].iov_len - offset, room);
      chosen[count++] = {.iov_base = static_cast<std::byte*>(parts[part].iov_base) + offset,
                         .iov_len = more};
      size += more;
      room -= more;
      offset += more;
      if (offset == parts[part].iov_len) {
        ++part;
        offset = 0;
      }
    }
    if (size == 0) break;
    const uint64_t at = sent_;
    sent_ += size;
    total += size;
    const Status status = worker_.send(endpoint_, id_, peers_id_, at, {chosen, count});
    if (!status.ok()) {
      endpoint_failure_ = status;
      return {failed(status.code(), std::string(status.message()))};
    }
  }
  if (total == 0) return {Outcome::kBlocked};
  return {Outcome::kMoved, total};
}

Stream::Result UcxStream::take(std::span<const iovec> parts) {
  size_t moved = 0;
  for (const iovec& part : parts) {
    size_t filled = 0;
    while (filled < part.iov_len && !pieces_.empty()) {
      Piece& piece = pieces_.front();
      const size_t size = std::min(part.iov_len - filled, piece.size - piece.read);
      std::memcpy(static_cast<std::byte*>(part.iov_base) + filled, piece.bytes + piece.read, size);
      filled += size;
      piece.read += size;
      moved += size;
      if (piece.read < piece.size) continue;
      worker_.release(piece.bytes);
      pieces_.pop_front();
    }
  }
  if (moved == 0) return {Outcome::kBlocked};
  read_ += moved;
  if (read_ - read_told_ >= kWindow / 4 && !endpoint_failure_) {
    read_told_ = read_;
    const Status status = worker_.send(endpoint_, id_, peers_id_, read_, {});
    if (!status.ok()) endpoint_failure_ = status;
  }
  return {Outcome::kMoved, moved, pieces_.empty()};
}

Stream::Result UcxStream::read(std::span<const iovec> parts) {
  if (!begun_) return tcp_->read(parts);
  const MutexLock lock(worker_.mutex());
  if (closed_) return {failed(ErrorCode::kUnavailable, "it is closed")};
  if (endpoint_ != nullptr) {
    const Result result = take(parts);
    if (result.outcome == Outcome::kMoved) return result;
  }
  look_at_tcp();
  if (tcp_ended_) {
    worker_.progress();  // what it said before it went
    const Result result = take(parts);
    if (result.outcome == Outcome::kMoved) return result;
    if (!end_at_ || read_ >= *end_at_ || endpoint_failure_) return {Outcome::kEnd};
    // It is on its way, unless the endpoint was closed under it.
    const auto now = std::chrono::steady_clock::now();
    if (!give_up_at_) {
      give_up_at_ = now + kStillComing;
      worker_.announce_at(key_, *give_up_at_);
    }
    if (now >= *give_up_at_) return {Outcome::kEnd};
  }
  if (failure_) return {failed(failure_->code(), std::string(failure_->message()))};
  return {Outcome::kBlocked};
}

Stream::Outcome UcxStream::flush() {
  if (!begun_) return tcp_->flush();
  const MutexLock lock(worker_.mutex());
  if (failure_) return failed(failure_->code(), std::string(failure_->message()));
  if (endpoint_failure_) return Outcome::kBlocked;  // write tells
  return flush_tcp() && flushed_bytes_ == sent_ ? Outcome::kMoved : Outcome::kBlocked;
}

void UcxStream::end() {
  if (!begun_) return tcp_->end();
  const MutexLock lock(worker_.mutex());
  put_word(to_tell_, sent_);
  ended_ = true;
  flush_tcp();
}

void UcxStream::close() {
  const MutexLock lock(worker_.mutex());
  if (std::exchange(closed_, true)) return;
  if (begun_) worker_.remove(id_);
  for (const Piece& piece : pieces_) worker_.release(piece.bytes);
  for (const auto& [offset, piece] : ahead_) worker_.release(piece.bytes);
  pieces_.clear();
  ahead_.clear();
  if (endpoint_ != nullptr) worker_.close(std::exchange(endpoint_, nullptr));
  if (!failure_) failure_ = Status(ErrorCode::kUnavailable, "it is closed");
  tcp_->close();
}

}  // namespace strata::wire
