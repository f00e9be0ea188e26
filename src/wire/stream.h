#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/error.h"

namespace strata::wire {

/// An ordered, non-blocking, bidirectional byte stream: what a Session runs its protocol over.
/// Threads: one at a time; the owner serialises the calls.
class Stream {
 public:
  enum class Outcome {
    kMoved,    ///< `bytes` were transferred, at least one
    kBlocked,  ///< would block; the reactor reports the stream when a retry can succeed
    kEnd,      ///< read only: the peer has shut down its sending side
    kFailed,   ///< permanently; see status()
  };
  struct Result {
    Outcome outcome;
    size_t bytes = 0;
    bool drained = false;  ///< read only: a further read would block
  };

  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Registers the stream with its reactor, which reports `key` whenever the stream may be ready,
  /// and at once if it may be ready already.
  virtual void watch(uint64_t key) = 0;

  /// Connects, and runs the TLS handshake if there is one. Call until kMoved.
  virtual Outcome establish() = 0;

  /// The protocol that carries the data after the handshake ("ucx"); empty: this one. Both peers
  /// must name the same.
  virtual std::string_view upgrade_protocol() const { return {}; }
  /// Switches to `upgrade_protocol` after both hellos. Call until kMoved.
  virtual Outcome upgrade() { return Outcome::kMoved; }

  virtual Result write(std::span<const iovec> parts) = 0;
  virtual Result read(std::span<const iovec> parts) = 0;

  /// Transmits what `write` accepted and still buffers; kMoved when the buffer is empty.
  virtual Outcome flush() { return Outcome::kMoved; }

  /// Bytes that `write` has produced so far (TLS records, for example), and how many of them have
  /// been transmitted; the rest needs a `flush`.
  virtual uint64_t bytes_produced() const { return 0; }
  virtual uint64_t bytes_flushed() const { return 0; }

  /// Shuts down the sending side. Call after the last `flush`.
  virtual void end() = 0;

  /// Closes the stream immediately. Later calls fail.
  virtual void close() = 0;

  /// Whether any byte has been received from the peer, TLS records included.
  virtual bool received_any_bytes() const { return false; }

  /// Why the last call failed: kUnavailable (the peer has disconnected), kUnauthenticated (TLS).
  const Status& status() const { return status_; }

  /// The names in the peer's certificate; empty without TLS.
  virtual std::vector<std::string> peer_names() const { return {}; }

 protected:
  Stream() = default;
  Outcome failed(ErrorCode code, std::string why) {
    status_ = Status(code, std::move(why));
    return Outcome::kFailed;
  }

 private:
  Status status_;
};

}  // namespace strata::wire
