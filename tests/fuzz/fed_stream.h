#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "wire/reactor.h"
#include "wire/stream.h"

namespace strata::fuzz {

/// What a fed stream reads, and whether it may write; the target's, which outlives the stream.
struct Feed {
  std::string bytes;
  size_t read = 0;               ///< so many of them are
  bool ended = false;            ///< behind them is the end
  bool broken = false;           ///< or a failure
  size_t writable = ~size_t{0};  ///< so many bytes may be written before it blocks
};

/// A stream whose peer is the input of a fuzz target. What is written goes nowhere.
class FedStream final : public wire::Stream {
 public:
  explicit FedStream(Feed& feed) : feed_(feed) {}

  void watch(uint64_t) override {}
  Outcome establish() override { return Outcome::kMoved; }
  void end() override {}
  void close() override { closed_ = true; }

  Result write(std::span<const iovec> parts) override {
    if (closed_) return {.outcome = failed(ErrorCode::kUnavailable, "it is closed")};
    size_t bytes = 0;
    for (const iovec& part : parts) bytes += part.iov_len;
    bytes = std::min(bytes, feed_.writable);
    if (bytes == 0) return {.outcome = Outcome::kBlocked};
    feed_.writable -= bytes;
    return {.outcome = Outcome::kMoved, .bytes = bytes};
  }

  Result read(std::span<const iovec> parts) override {
    if (closed_) return {.outcome = failed(ErrorCode::kUnavailable, "it is closed")};
    size_t bytes = 0;
    for (const iovec& part : parts) {
      const size_t size = std::min<size_t>(part.iov_len, feed_.bytes.size() - feed_.read);
      if (size > 0) std::memcpy(part.iov_base, feed_.bytes.data() + feed_.read, size);
      feed_.read += size;
      bytes += size;
    }
    if (bytes > 0) return {.outcome = Outcome::kMoved, .bytes = bytes};
    if (feed_.broken) return {.outcome = failed(ErrorCode::kUnavailable, "reset by the peer")};
    return {.outcome = feed_.ended ? Outcome::kEnd : Outcome::kBlocked};
  }

 private:
  Feed& feed_;
  bool closed_ = false;
};

/// Says nothing: the target calls `ready` by itself.
class NoReactor final : public wire::Reactor {
 public:
  void poll(std::vector<uint64_t>&, TimePoint) override {}
  void interrupt() override {}
};

}  // namespace strata::fuzz
