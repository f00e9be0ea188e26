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

/// Bytes in both directions, in order, without waiting: what a Session speaks its protocol over.
/// Threads: one at a time, as the owner sees to.
class Stream {
 public:
  enum class Outcome {
    kMoved,    ///< `bytes` were moved, at least one
    kBlocked,  ///< nothing can be moved now; its reactor will say when it is worth another try
    kEnd,      ///< read only: the peer writes no more
    kFailed,   ///< for good; see status()
  };
  struct Result {
    Outcome outcome;
    size_t bytes = 0;
    bool drained = false;  ///< read only: there was no more than that
  };

  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// From now on the reactor reports `key` when there is something to do; at once if there may be.
  virtual void watch(uint64_t key) = 0;

  /// What comes before bytes can be moved: connecting, TLS. kMoved when it is done.
  virtual Outcome establish() = 0;

  /// Which way bytes go after the greetings; empty: as before. Peers must have the same.
  virtual std::string_view way() const { return {}; }
  /// After both greetings, until kMoved: from now on bytes go another way, if this stream has one.
  virtual Outcome begin() { return Outcome::kMoved; }

  virtual Result write(std::span<const iovec> parts) = 0;
  virtual Result read(std::span<const iovec> parts) = 0;

  /// Moves on what `write` took and kept; kMoved when nothing is left of it.
  virtual Outcome flush() { return Outcome::kMoved; }

  /// How many bytes of its own `write` has made of what it took, and how many of them are on their
  /// way: the rest waits for a `flush`.
  virtual uint64_t made() const { return 0; }
  virtual uint64_t passed_on() const { return 0; }

  /// Tells the peer that no more will be written. After the last `flush`.
  virtual void end() = 0;

  /// Lets go of it at once. Later calls fail.
  virtual void close() = 0;

  /// Whether a byte of the peer's has ever been read, one of TLS among them.
  virtual bool heard_anything() const { return false; }

  /// Why the last call failed; codes: kUnavailable (the peer is gone), kUnauthenticated (TLS).
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
