#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/wire/deadline.h"
#include "wire/address.h"
#include "wire/hello.h"
#include "wire/transfer.h"

namespace strata::wire {

/// Bytes and messages of a connection; frames' headers count.
struct ConnectionCounts {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
};

/// A reliable connection to one peer: tagged messages into posted buffers, and control messages. It
/// progresses only while a thread waits on its transport, and within its own calls, which do what
/// can be done without waiting.
///
/// No order of posts leads to a deadlock, and memory is bounded: up to `eager_limit` bytes of a
/// message are sent at once and kept for a receive that is posted later (up to `eager_budget` in
/// all); the rest is sent when the receive is posted. A receive that is posted early costs no round
/// trip.
///
/// A connection fails as a whole: peer dead (kUnavailable), `fail`, bytes that are no frames
/// (kDataLoss). Then every pending and later operation ends with that status, which names the peer;
/// messages that arrived before can still be received, unless `fail` was called.
///
/// Threads: any.
class STRATA_API Connection {
 public:
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The peer's hello message.
  const Hello& peer() const { return peer_; }
  /// The peer's address: the one connected to, or the one that it connected from.
  const Address& address() const { return address_; }
  /// The peer's name for messages: "/job:worker/task:2 at 10.0.0.3:4444".
  const std::string& name() const { return name_; }

  /// Starts to send. The transfer is done when the bytes are on their way and `bytes` may change;
  /// only a reply tells whether the peer received them. Never throws: a failure is the transfer's
  /// status.
  [[nodiscard]] Transfer send(const Tag& tag, std::span<const std::byte> bytes) {
    return do_send(tag, bytes);
  }

  /// Starts to receive a message of exactly `bytes.size()` bytes. If the message has another size,
  /// both sides fail as with a fingerprint (see Tag), and both sizes are quoted.
  [[nodiscard]] Transfer receive(const Tag& tag, std::span<std::byte> bytes) {
    return do_receive(tag, bytes);
  }

  /// Sends a control message. Control messages arrive in order within a channel; a channel's
  /// numbers are not those of tags. The text is copied; a part of it may be sent by the next wait
  /// on the transport, so a task waits or closes after its last message.
  /// @param text  At most kMaxMessage bytes.
  /// @throws Error kInvalidArgument: too long. kResourceExhausted: more than 4 * kMaxMessage bytes
  ///   wait to be sent. The connection's status if it has failed.
  void send_message(uint32_t channel, std::string_view text);

  /// Waits for the next control message of the channel.
  /// @throws Error kDeadlineExceeded, kCancelled (`stop`), the connection's status.
  std::string receive_message(uint32_t channel, Deadline deadline, std::stop_token stop = {}) {
    return do_receive_message(channel, deadline, std::move(stop));
  }
  /// Takes the next control message without waiting; makes no progress: use it with
  /// Transport::wait_until.
  /// @throws the connection's status, once earlier messages have been taken.
  std::optional<std::string> try_receive_message(uint32_t channel) {
    return do_try_receive_message(channel);
  }

  /// Ok while the connection can be used.
  virtual Status status() const = 0;

  /// Ends every pending and later operation here with `status`, prefixed with the peer's name, and
  /// sends the reason to the peer if that needs no waiting. The first failure is kept.
  virtual void fail(const Status& status) = 0;

  /// Closes in an orderly way: earlier sends are completed, and the peer is informed. Returns when
  /// the peer has closed, too, or at the deadline. Pending operations end with kCancelled, the
  /// peer's with kUnavailable.
  virtual void close(Deadline deadline) = 0;

  virtual ConnectionCounts counts() const = 0;

  static constexpr size_t kMaxMessage = size_t{16} << 20;

 protected:
  Connection(Hello peer, Address address);

 private:
  virtual Transfer do_send(const Tag& tag, std::span<const std::byte> bytes) = 0;
  virtual Transfer do_receive(const Tag& tag, std::span<std::byte> bytes) = 0;
  virtual void do_send_message(uint32_t channel, std::string_view text) = 0;
  virtual std::string do_receive_message(uint32_t channel, Deadline deadline,
                                         std::stop_token stop) = 0;
  virtual std::optional<std::string> do_try_receive_message(uint32_t channel) = 0;

  Hello peer_;
  Address address_;
  std::string name_;
};

}  // namespace strata::wire
