#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/wire/connection.h"
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
  void start(uint64_t key, bool hung_up);

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

  // session.cc. These and all below require mutex_.
  bool alive() const { return status_.ok(); }
  template <typename Operation>
  void finish(Operation& operation, Status status);
  template <typename Operation>
  void finish_failed(Operation& operation, ErrorCode code, std::string_view why);
  void fail_locked(ErrorCode code, const std::string& why, bool tell);
  void send_go_away(ErrorCode code, std::string_view why);
  void fail_channel(uint32_t channel, const std::string& why);
  const std::string* channel_failure(uint32_t channel) const;
  std::vector<SendOperation*> pending_sends() const;
  void unlock_and_notify(std::unique_lock<std::mutex>& lock);

  // session_receive.cc
  bool read_some(bool& reschedule);
  void parse(const std::byte* bytes, size_t size);
  void begin_frame();
  void begin_message();
  void begin_data();
  void begin_control();
  void end_frame();
  void end_part();
  void on_go_away();
  void on_receive_posted();
  void on_clear_to_send();
  void on_abort();
  void on_mismatch();
  void count_arrived(size_t bytes);
  Incoming& add_incoming();
  void match(Incoming& incoming, ReceiveOperation& receive);
  void mismatch(Incoming& incoming, ReceiveOperation& receive);
  void drop(Incoming& incoming);
  void clear_to_send(Incoming& incoming);
  void release(Incoming& incoming);
  void damaged(std::string_view what);

  // session_send.cc
  bool write_some();
  void write_now();
  void fill();
  size_t next_in_queue();
  void begin_queued();
  void begin_send(SendOperation& send);
  void add_data();
  void add_urgent(FrameKind kind, const Tag& tag, uint32_t message, std::string_view bytes = {});
  OutgoingFrame& add_frame(FrameKind kind, const Tag& tag);
  void written(size_t bytes);
  void sent(OutgoingFrame& frame);
  void complete_flushed();
  void start_cleared(SendOperation& send);
  void abort_send(SendOperation& send);
  bool all_sent() const;

  const SessionOptions options_;
  const std::shared_ptr<ProgressEngine> progress_;
  uint64_t key_ = 0;

  mutable std::mutex mutex_;
  std::unique_ptr<Stream> stream_;
  Status status_;
  std::string why_;                // the message of status_ without its prefix
  bool failed_here_ = false;       // by `fail`: messages that arrived before are discarded, too
  bool closing_ = false;           // close() was called
  bool ended_ = false;             // our kGoAway is queued; nothing may follow it
  bool hung_up_ = false;           // Reactor::kHungUp was reported
  bool read_would_block_ = false;  // at least one read has returned kBlocked
  bool notify_pending_ = false;    // waiting threads must be notified
  std::map<uint32_t, std::string> failed_channels_;
  bool peer_ended_ = false;
  ConnectionCounts counts_;

  // Receiving
  TagQueue<ReceiveOperation> posted_receives_;  // not yet matched
  TagQueue<Incoming> unexpected_messages_;      // no matching receive is posted yet
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::unordered_map<uint32_t, Incoming*> unfinished_;  // by message; bytes are still missing
  std::vector<std::unique_ptr<Incoming>> spare_;        // for reuse
  uint64_t receive_window_used_ = 0;
  uint64_t window_to_return_ = 0;  // freed, and not reported to the peer
  std::map<uint32_t, std::deque<std::string>> control_messages_;
  size_t control_bytes_ = 0;
  std::vector<std::byte> staging_;
  size_t staging_read_ = kSmallRead;  // bytes of it that the next read asks for
  FrameHeader header_;
  size_t header_received_ = 0;
  size_t part_remaining_ = 0;
  std::byte* destination_ = nullptr;  // of the current part; null: it is discarded
  Incoming* current_ = nullptr;
  std::string control_text_;  // the received beginning of a control message
  uint32_t control_channel_ = 0;
  uint64_t control_total_ = 0;
  std::string body_;  // of a frame of another kind
  std::string* append_to_ = nullptr;

  // Sending
  std::deque<OutgoingFrame> urgent_;  // protocol frames, which precede payload
  std::deque<QueuedSend> send_queue_;
  std::deque<SendOperation*> cleared_sends_;  // begun; the rest may be sent
  std::deque<OutgoingFrame> outgoing_;        // the first may be partly written
  // A send that is written completely, and transmitted when the stream has flushed `until` bytes.
  struct UnflushedSend {
    SendOperation* send;
    uint64_t until;
  };
  std::deque<UnflushedSend> unflushed_sends_;
  TagQueue<SendOperation> uncleared_sends_;
  std::unordered_map<uint32_t, SendOperation*> active_sends_;  // by message; begun, not yet written
  TagQueue<PeerReceive> peer_receives_;                        // owned
  uint64_t send_window_left_ = 0;
  size_t control_bytes_to_send_ = 0;
  uint32_t next_message_ = 1;
  bool blocked_ = false;  // the stream would block; its reactor reports when to retry
  bool flushed_ = true;   // the stream buffers nothing
  std::optional<Status> write_failure_;
  std::mt19937_64 random_;
};

}  // namespace strata::wire
