#include "wire/memory/memory_stream.h"

#include <algorithm>
#include <cstring>

namespace strata::wire {
namespace {

constexpr size_t kCapacity = size_t{4} << 20;

TimePoint now() { return std::chrono::steady_clock::now(); }

// A length for a piece: every magnitude is about as likely.
size_t piece_of(size_t size, std::mt19937_64& random) {
  const size_t limit = size_t{1} << (random() % 17);
  return std::min(size, 1 + random() % limit);
}

}  // namespace

void MemoryNetwork::Impl::break_pipe(MemoryPipe& pipe) {
  pipe.broken = true;
  pipe.pieces.clear();
  pipe.bytes = 0;
  pipe.writer.announce(now());
  pipe.reader.announce(now());
}

void MemoryNetwork::Impl::break_all(const std::string& a, const std::string& b) {
  for (const auto& each : pipes) {
    const auto pipe = each.lock();
    if (pipe == nullptr) continue;
    if ((pipe->from == a && pipe->to == b) || (pipe->from == b && pipe->to == a)) break_pipe(*pipe);
  }
}

Stream::Outcome MemoryStream::reset() {
  return failed(ErrorCode::kUnavailable, "the peer has disconnected (connection reset)");
}

void MemoryStream::watch(uint64_t key) {
  const MutexLock lock(network_->mutex);
  out_->writer.key = key;
  in_->reader.key = key;
  in_->reader.announce(now());
  in_->reader.announce(in_->last_due);  // earlier writes are announced again
}

Stream::Result MemoryStream::write(std::span<const iovec> parts) {
  const MutexLock lock(network_->mutex);
  MemoryPipe& pipe = *out_;
  if (pipe.broken || pipe.ended || pipe.reader.closed) return {reset()};
  MemoryLink& link = network_->link(pipe.from, pipe.to);
  size_t room = kCapacity - std::min(kCapacity, pipe.bytes);
  if (link.options.fragment) room = std::min(room, piece_of(kCapacity, pipe.random));
  if (room == 0) {
    pipe.writer_waits = true;
    return {Outcome::kBlocked};
  }
  bool cut = false;
  if (link.bytes_until_cut && *link.bytes_until_cut <= room) {
    cut = true;
    room = *link.bytes_until_cut;
  }
  MemoryPipe::Piece piece;
  for (const iovec& part : parts) {
    const auto* bytes = static_cast<const std::byte*>(part.iov_base);
    const size_t size = std::min(part.iov_len, room - piece.bytes.size());
    piece.bytes.insert(piece.bytes.end(), bytes, bytes + size);
  }
  const size_t size = piece.bytes.size();
  if (link.bytes_until_cut) {
    cut = cut && size == *link.bytes_until_cut;
    *link.bytes_until_cut -= size;
  }

  TimePoint due = now();
  if (link.options.bytes_per_second > 0) {
    const std::chrono::duration<double> takes(static_cast<double>(size) /
                                              link.options.bytes_per_second);
    link.busy_until = std::max(link.busy_until, due) +
                      std::chrono::duration_cast<std::chrono::nanoseconds>(takes);
    due = link.busy_until;
  }
  due += link.options.latency;
  if (link.options.jitter.count() > 0)
    due += std::chrono::nanoseconds(pipe.random() %
                                    static_cast<uint64_t>(link.options.jitter.count()));
  pipe.last_due = piece.due = std::max(due, pipe.last_due);
  pipe.bytes += size;
  pipe.pieces.push_back(std::move(piece));
  pipe.reader.announce(pipe.last_due);
  if (cut) {
    link.bytes_until_cut.reset();
    link.cut = network_->link(pipe.to, pipe.from).cut = true;
    network_->break_all(pipe.from, pipe.to);
    if (size == 0) return {reset()};
  }
  return {Outcome::kMoved, size};
}

Stream::Result MemoryStream::read(std::span<const iovec> parts) {
  const MutexLock lock(network_->mutex);
  MemoryPipe& pipe = *in_;
  if (pipe.broken || pipe.reader.closed) return {reset()};
  const MemoryLink& link = network_->link(pipe.from, pipe.to);
  if (link.silent) return {Outcome::kBlocked};  // `heal` announces it
  const TimePoint at = now();
  size_t limit = SIZE_MAX;
  if (link.options.fragment) limit = piece_of(kCapacity, pipe.random);
  size_t moved = 0;
  for (const iovec& part : parts) {
    size_t filled = 0;
    while (filled < part.iov_len && moved < limit && !pipe.pieces.empty() &&
           pipe.pieces.front().due <= at) {
      MemoryPipe::Piece& piece = pipe.pieces.front();
      const size_t size =
          std::min({part.iov_len - filled, piece.bytes.size() - piece.read, limit - moved});
      std::memcpy(static_cast<std::byte*>(part.iov_base) + filled, piece.bytes.data() + piece.read,
                  size);
      filled += size;
      moved += size;
      piece.read += size;
      if (piece.read == piece.bytes.size()) pipe.pieces.pop_front();
    }
  }
  if (moved > 0) {
    pipe.bytes -= moved;
    if (std::exchange(pipe.writer_waits, false)) pipe.writer.announce(at);
    const bool drained = pipe.pieces.empty() ? !pipe.ended : pipe.pieces.front().due > at;
    return {Outcome::kMoved, moved, drained};
  }
  return {pipe.ended && pipe.pieces.empty() ? Outcome::kEnd : Outcome::kBlocked};
}

void MemoryStream::end() {
  const MutexLock lock(network_->mutex);
  out_->ended = true;
  out_->reader.announce(std::max(now(), out_->last_due));
}

void MemoryStream::close() {
  const MutexLock lock(network_->mutex);
  if (std::exchange(in_->reader.closed, true)) return;
  out_->ended = out_->writer.closed = true;
  out_->reader.announce(std::max(now(), out_->last_due));
  in_->writer.announce(now());
  in_->pieces.clear();
}

}  // namespace strata::wire
