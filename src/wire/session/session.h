#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/mutex.h"
#include "wire/connection.h"
#include "wire/progress_engine.h"
#include "wire/session/frame.h"
#include "wire/session/operations.h"
#include "wire/session/tag_queue.h"
#include "wire/stream.h"

namespace strata::wire {

struct SessionOptions {
  std::string own_task = {};
  size_t eager_limit = 0;         ///< bytes of a message that are sent without clear-to-send
  uint64_t peer_eager_limit = 0;  ///< the same limit of the peer
  uint64_t receive_window = 0;    ///< bytes of unexpected messages that this side buffers
  uint64_t send_window = 0;       ///< bytes of unexpected messages that the peer buffers
  std::optional<uint64_t> shuffle_seed = std::nullopt;  ///< sends begin in random order (tests)
};

/// The protocol of a connection over any Stream: tag matching, flow control, failure.
///
/// Eager and rendezvous sends, as in MPI. A message begins with a kMessage frame that carries up to
/// `eager_limit` bytes, which count against the receiver's window until a receive matches them
/// (`window_returned`). The rest is sent once the receiver has answered kClearToSend. A large
/// receive that is posted before its message has begun is announced with kReceivePosted, and the
/// message is sent whole, without waiting. When the window is used up, a message begins with no
/// bytes at all.
///
/// Invariant: a message that is flagged kCleared always finds a posted receive. A receiver sends
/// kReceivePosted only for a receive whose tag has no unexpected message. If that message was on
/// its way at the time, the receiver also answers it with kClearToSend, after kReceivePosted, so
/// the sender always has a message to use the announcement for. Therefore a cancelled send stays
/// in `uncleared_sends_` until its kClearToSend has arrived, and a cancelled receive stays in
/// `posted_receives_` until its message has.
///
/// Threads: any. One mutex protects everything, system calls included, in pieces of kMaxMove.
class Session final : public Connection,
                      public Pollable,
                      public std::enable_shared_from_this<Session> {
 public:
  Session(Hello peer, Address address, std::unique_ptr<Stream> stream,
          const SessionOptions& options, std::shared_ptr<ProgressEngine> progress);
  ~Session() override;
  /// Starts the protocol; call it once a shared_ptr owns the session.
  /// @param key  The stream's key at the reactor. @param hung_up  As Reactor::kHungUp.
  /// (Not checked: no other thread knows the session yet.)
  void start(uint64_t key, bool hung_up) STRATA_NO_THREAD_SAFETY_ANALYSIS;

  Status status() const override;
  void fail(const Status& status) override;
  void close(Deadline deadline) override;
  ConnectionCounts counts() const override;
  bool ready(bool& reschedule, bool hung_up) override;

  void cancel_send(SendOperation& operation);
  void cancel_receive(ReceiveOperation& operation);

 private:
  static constexpr size_t kMaxMove = size_t{256} << 10;
  static constexpr size_t kStaging = size_t{64} << 10;
  static constexpr size_t kSmallRead = size_t{8} << 10;
  static constexpr size_t kMaxUnmatched = size_t{1}
                                          << 17;  // unexpected messages, or posted receives
  static constexpr size_t kMaxControlBytes = 4 * kMaxMessage;

  // A message that has begun to arrive.
  struct Incoming {
    Tag tag;
    Incoming* next_in_tag_queue = nullptr;
    uint32_t message = 0;
    uint64_t total = 0;
    uint64_t arrived = 0;
    uint64_t cost = 0;             // of the receive window
    bool wants_clearance = false;  // the sender waits for kClearToSend
    bool aborted = false;
    bool dropped = false;  // its receive was cancelled, or does not fit: bytes are discarded
    ReceiveOperation* receive = nullptr;
    std::unique_ptr<std::byte[]> payload;  // bytes that arrived before the receive was posted
    size_t index = 0;                      // in incoming_
  };
  // A receive that the peer has announced with kReceivePosted.
  struct PeerReceive {
    Tag tag;
    PeerReceive* next_in_tag_queue = nullptr;
  };
  // A frame that is being written.
  struct OutgoingFrame {
    FrameHeader header;
    const std::byte* bytes = nullptr;
    std::string own_bytes;  // if they are not a send operation's
    SendOperation* send = nullptr;
    size_t written = 0;  // header included
  };
  struct ControlMessage {
    uint32_t channel = 0;
    std::string text;
    size_t sent = 0;
  };
  // A send or a control message that has not begun.
  struct QueuedSend {
    SendOperation* send = nullptr;
    ControlMessage control;
  };

  Transfer do_send(const Tag& tag, std::span<const std::byte> bytes) override;
  Transfer do_receive(const Tag& tag, std::span<std::byte> bytes) override;
  void do_send_message(uint32_t channel, std::string_view text) override;
  std::string do_receive_message(uint32_t channel, Deadline deadline,
                                 std::stop_token stop) override;
  std::optional<std::string> do_try_receive_message(uint32_t channel) override;

  // session.cc
  bool alive() const STRATA_REQUIRES(mutex_) { return status_.ok(); }
  template <typename Operation>
  void finish(Operation& operation, Status status) STRATA_REQUIRES(mutex_);
  template <typename Operation>
  void finish_failed(Operation& operation, ErrorCode code, std::string_view why)
      STRATA_REQUIRES(mutex_);
  void fail_locked(ErrorCode code, const std::string& why, bool tell) STRATA_REQUIRES(mutex_);
  void send_go_away(ErrorCode code, std::string_view why) STRATA_REQUIRES(mutex_);
  void fail_channel(uint32_t channel, const std::string& why) STRATA_REQUIRES(mutex_);
  const std::string* channel_failure(uint32_t channel) const STRATA_REQUIRES(mutex_);
  std::vector<SendOperation*> pending_sends() const STRATA_REQUIRES(mutex_);
  // Not checked: clang does not follow a lock that is a parameter.
  void unlock_and_notify(MutexLock& lock) STRATA_RELEASE(mutex_) STRATA_NO_THREAD_SAFETY_ANALYSIS;

  // session_receive.cc
  bool read_some(bool& reschedule) STRATA_REQUIRES(mutex_);
  void parse(const std::byte* bytes, size_t size) STRATA_REQUIRES(mutex_);
  void begin_frame() STRATA_REQUIRES(mutex_);
  void begin_message() STRATA_REQUIRES(mutex_);
  void begin_data() STRATA_REQUIRES(mutex_);
  void begin_control() STRATA_REQUIRES(mutex_);
  void end_frame() STRATA_REQUIRES(mutex_);
  void end_part() STRATA_REQUIRES(mutex_);
  void on_go_away() STRATA_REQUIRES(mutex_);
  void on_receive_posted() STRATA_REQUIRES(mutex_);
  void on_clear_to_send() STRATA_REQUIRES(mutex_);
  void on_abort() STRATA_REQUIRES(mutex_);
  void on_mismatch() STRATA_REQUIRES(mutex_);
  void count_arrived(size_t bytes) STRATA_REQUIRES(mutex_);
  Incoming& add_incoming() STRATA_REQUIRES(mutex_);
  void match(Incoming& incoming, ReceiveOperation& receive) STRATA_REQUIRES(mutex_);
  void mismatch(Incoming& incoming, ReceiveOperation& receive) STRATA_REQUIRES(mutex_);
  void drop(Incoming& incoming) STRATA_REQUIRES(mutex_);
  void clear_to_send(Incoming& incoming) STRATA_REQUIRES(mutex_);
  void release(Incoming& incoming) STRATA_REQUIRES(mutex_);
  void damaged(std::string_view what) STRATA_REQUIRES(mutex_);

  // session_send.cc
  bool write_some() STRATA_REQUIRES(mutex_);
  void write_now() STRATA_REQUIRES(mutex_);
  void fill() STRATA_REQUIRES(mutex_);
  size_t next_in_queue() STRATA_REQUIRES(mutex_);
  void begin_queued() STRATA_REQUIRES(mutex_);
  void begin_send(SendOperation& send) STRATA_REQUIRES(mutex_);
  void add_data() STRATA_REQUIRES(mutex_);
  void add_urgent(FrameKind kind, const Tag& tag, uint32_t message, std::string_view bytes = {})
      STRATA_REQUIRES(mutex_);
  OutgoingFrame& add_frame(FrameKind kind, const Tag& tag) STRATA_REQUIRES(mutex_);
  void written(size_t bytes) STRATA_REQUIRES(mutex_);
  void sent(OutgoingFrame& frame) STRATA_REQUIRES(mutex_);
  void complete_flushed() STRATA_REQUIRES(mutex_);
  void start_cleared(SendOperation& send) STRATA_REQUIRES(mutex_);
  void abort_send(SendOperation& send) STRATA_REQUIRES(mutex_);
  bool all_sent() const STRATA_REQUIRES(mutex_);

  const SessionOptions options_;
  const std::shared_ptr<ProgressEngine> progress_;
  uint64_t key_ = 0;

  mutable Mutex mutex_;
  std::unique_ptr<Stream> stream_ STRATA_GUARDED_BY(mutex_);
  Status status_ STRATA_GUARDED_BY(mutex_);
  // The message of status_ without its prefix.
  std::string why_ STRATA_GUARDED_BY(mutex_);
  // By `fail`: messages that arrived before are discarded, too.
  bool failed_here_ STRATA_GUARDED_BY(mutex_) = false;
  bool closing_ STRATA_GUARDED_BY(mutex_) = false;  // close() was called
  // Our kGoAway is queued; nothing may follow it.
  bool ended_ STRATA_GUARDED_BY(mutex_) = false;
  bool hung_up_ STRATA_GUARDED_BY(mutex_) = false;  // Reactor::kHungUp was reported
  // At least one read has returned kBlocked.
  bool read_would_block_ STRATA_GUARDED_BY(mutex_) = false;
  bool notify_pending_ STRATA_GUARDED_BY(mutex_) = false;  // waiting threads must be notified
  std::map<uint32_t, std::string> failed_channels_ STRATA_GUARDED_BY(mutex_);
  bool peer_ended_ STRATA_GUARDED_BY(mutex_) = false;
  ConnectionCounts counts_ STRATA_GUARDED_BY(mutex_);

  // Receiving
  TagQueue<ReceiveOperation> posted_receives_ STRATA_GUARDED_BY(mutex_);  // not yet matched
  // No matching receive is posted yet.
  TagQueue<Incoming> unexpected_messages_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Incoming>> incoming_ STRATA_GUARDED_BY(mutex_);
  // By message; bytes are still missing.
  std::unordered_map<uint32_t, Incoming*> unfinished_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Incoming>> spare_ STRATA_GUARDED_BY(mutex_);  // for reuse
  uint64_t receive_window_used_ STRATA_GUARDED_BY(mutex_) = 0;
  // Freed, and not reported to the peer.
  uint64_t window_to_return_ STRATA_GUARDED_BY(mutex_) = 0;
  std::map<uint32_t, std::deque<std::string>> control_messages_ STRATA_GUARDED_BY(mutex_);
  size_t control_bytes_ STRATA_GUARDED_BY(mutex_) = 0;
  std::vector<std::byte> staging_ STRATA_GUARDED_BY(mutex_);
  // Bytes of it that the next read asks for.
  size_t staging_read_ STRATA_GUARDED_BY(mutex_) = kSmallRead;
  FrameHeader header_ STRATA_GUARDED_BY(mutex_);
  size_t header_received_ STRATA_GUARDED_BY(mutex_) = 0;
  size_t part_remaining_ STRATA_GUARDED_BY(mutex_) = 0;
  // Of the current part; null: it is discarded.
  std::byte* destination_ STRATA_GUARDED_BY(mutex_) = nullptr;
  Incoming* current_ STRATA_GUARDED_BY(mutex_) = nullptr;
  // The received beginning of a control message.
  std::string control_text_ STRATA_GUARDED_BY(mutex_);
  uint32_t control_channel_ STRATA_GUARDED_BY(mutex_) = 0;
  uint64_t control_total_ STRATA_GUARDED_BY(mutex_) = 0;
  std::string body_ STRATA_GUARDED_BY(mutex_);  // of a frame of another kind
  std::string* append_to_ STRATA_GUARDED_BY(mutex_) = nullptr;

  // Sending
  // Protocol frames, which precede payload.
  std::deque<OutgoingFrame> urgent_ STRATA_GUARDED_BY(mutex_);
  std::deque<QueuedSend> send_queue_ STRATA_GUARDED_BY(mutex_);
  // Begun; the rest may be sent.
  std::deque<SendOperation*> cleared_sends_ STRATA_GUARDED_BY(mutex_);
  // The first may be partly written.
  std::deque<OutgoingFrame> outgoing_ STRATA_GUARDED_BY(mutex_);
  // A send that is written completely, and transmitted when the stream has flushed `until` bytes.
  struct UnflushedSend {
    SendOperation* send;
    uint64_t until;
  };
  std::deque<UnflushedSend> unflushed_sends_ STRATA_GUARDED_BY(mutex_);
  TagQueue<SendOperation> uncleared_sends_ STRATA_GUARDED_BY(mutex_);
  // By message; begun, not yet written.
  std::unordered_map<uint32_t, SendOperation*> active_sends_ STRATA_GUARDED_BY(mutex_);
  TagQueue<PeerReceive> peer_receives_ STRATA_GUARDED_BY(mutex_);  // owned
  uint64_t send_window_left_ STRATA_GUARDED_BY(mutex_) = 0;
  size_t control_bytes_to_send_ STRATA_GUARDED_BY(mutex_) = 0;
  uint32_t next_message_ STRATA_GUARDED_BY(mutex_) = 1;
  // The stream would block; its reactor reports when to retry.
  bool blocked_ STRATA_GUARDED_BY(mutex_) = false;
  bool flushed_ STRATA_GUARDED_BY(mutex_) = true;  // the stream buffers nothing
  std::optional<Status> write_failure_ STRATA_GUARDED_BY(mutex_);
  std::mt19937_64 random_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::wire
