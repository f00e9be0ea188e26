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
#include "wire/progress.h"
#include "wire/session/frame.h"
#include "wire/session/operations.h"
#include "wire/session/tag_queue.h"
#include "wire/stream.h"

namespace strata::wire {

struct SessionOptions {
  std::string own_task = {};
  size_t eager_limit = 0;     ///< how much of a message goes at once
  uint64_t peers_limit = 0;   ///< and of the peer's
  uint64_t own_budget = 0;    ///< what the peer may send before a receive is known
  uint64_t peers_budget = 0;  ///< what it lets us send
  std::optional<uint64_t> shuffle_seed = std::nullopt;  ///< sends leave in random order
};

/// The protocol of a connection: matching, flow control, failure; over any Stream.
///
/// A message begins with a kMessage frame. Up to eager_limit bytes come with it, against the
/// receiver's budget, which `freed` gives back; the rest follows when the receiver has granted it.
/// A large receive that is posted before its message has begun says so with kCredit, and the
/// message comes whole. A message for which no budget is left begins with no bytes at all.
///
/// Why a message that is marked kWhole always has a receive: a credit leaves with a receive whose
/// tag has no message waiting. If the message had begun meanwhile, the receiver grants it too,
/// behind the credit, so the sender always finds one to spend the credit on: until the grant has
/// come it keeps even a send that was cancelled. A receive that is cancelled keeps its place.
///
/// Threads: any; everything is under one mutex, system calls included, in pieces of kMaxMove.
class Session final : public Connection,
                      public Pollable,
                      public std::enable_shared_from_this<Session> {
 public:
  Session(Hello peer, Address address, std::unique_ptr<Stream> stream,
          const SessionOptions& options, std::shared_ptr<Progress> progress);
  ~Session() override;
  /// Starts; after it is owned. `key`: the stream's at the reactor, which may have told already
  /// that it has hung up.
  void start(uint64_t key, bool hung_up);

  Status status() const override;
  void fail(const Status& status) override;
  void close(Deadline deadline) override;
  ConnectionCounts counts() const override;
  bool ready(bool& again, bool hung_up) override;

  void cancel_send(SendOperation& operation);
  void cancel_receive(ReceiveOperation& operation);

 private:
  static constexpr size_t kMaxMove = size_t{256} << 10;
  static constexpr size_t kStaging = size_t{64} << 10;
  static constexpr size_t kSmallRead = size_t{8} << 10;
  static constexpr size_t kMaxWaiting = size_t{1} << 17;  // messages that nobody receives
  static constexpr size_t kMaxTexts = 4 * kMaxMessage;

  // A message that has begun to come.
  struct Incoming {
    Tag tag;
    Incoming* next_in_tag_queue = nullptr;
    uint32_t message = 0;
    uint64_t total = 0;
    uint64_t came = 0;
    uint64_t cost = 0;         // of the eager budget
    bool wants_grant = false;  // the sender waits for it
    bool aborted = false;
    bool dropped = false;  // its receive was cancelled, or does not fit
    ReceiveOperation* receive = nullptr;
    std::unique_ptr<std::byte[]> kept;  // the part that came before its receive
    size_t index = 0;                   // in incoming_
  };
  // A receive that has room for a message that has not begun.
  struct Credit {
    Tag tag;
    Credit* next_in_tag_queue = nullptr;
  };
  // A frame that is being written.
  struct OutgoingFrame {
    FrameHeader header;
    const std::byte* bytes = nullptr;
    std::string own_bytes;  // for those that are not an operation's
    SendOperation* send = nullptr;
    size_t written = 0;  // header included
  };
  struct Text {
    uint32_t channel = 0;
    std::string text;
    size_t sent = 0;
  };
  // What waits to begin: a send, or a text.
  struct ToBegin {
    SendOperation* send = nullptr;
    Text text;
  };

  Transfer do_send(const Tag& tag, std::span<const std::byte> bytes) override;
  Transfer do_receive(const Tag& tag, std::span<std::byte> bytes) override;
  void do_send_message(uint32_t channel, std::string_view text) override;
  std::string do_receive_message(uint32_t channel, Deadline deadline,
                                 std::stop_token stop) override;
  std::optional<std::string> do_try_receive_message(uint32_t channel) override;

  // session.cc; all with mutex_ held
  bool alive() const { return status_.ok(); }
  template <typename Operation>
  void finish(Operation& operation, Status status);
  template <typename Operation>
  void finish_failed(Operation& operation, ErrorCode code, std::string_view why);
  void fail_locked(ErrorCode code, const std::string& why, bool tell);
  void say_goodbye(ErrorCode code, std::string_view why);
  void poison(uint32_t channel, const std::string& why);
  const std::string* poisoned(uint32_t channel) const;
  std::vector<SendOperation*> pending_sends() const;
  void unlock_and_notify(std::unique_lock<std::mutex>& lock);

  // session_receive.cc
  bool read_some(bool& again);
  void take_in(const std::byte* bytes, size_t size);
  void begin_frame();
  void begin_message();
  void begin_rest();
  void begin_text();
  void end_frame();
  void end_part();
  void end_goodbye();
  void on_credit();
  void on_grant();
  void on_abort();
  void on_mismatch();
  void count_came(size_t bytes);
  Incoming& add_incoming();
  void match(Incoming& incoming, ReceiveOperation& receive);
  void mismatch(Incoming& incoming, ReceiveOperation& receive);
  void drop(Incoming& incoming);
  void accept_rest(Incoming& incoming);
  void forget(Incoming& incoming);
  void damaged(std::string_view what);

  // session_send.cc
  bool write_some();
  void write_now();
  void fill();
  size_t next_to_begin();
  void begin_next();
  void begin_send(SendOperation& send);
  void add_rest();
  void add_urgent(FrameKind kind, const Tag& tag, uint32_t message, std::string_view bytes = {});
  OutgoingFrame& add_frame(FrameKind kind, const Tag& tag);
  void written(size_t bytes);
  void sent(OutgoingFrame& frame);
  void settle_kept();
  void grant(SendOperation& send);
  void abandon(SendOperation& send);
  bool nothing_to_send() const;

  const SessionOptions options_;
  const std::shared_ptr<Progress> progress_;
  uint64_t key_ = 0;

  mutable std::mutex mutex_;
  std::unique_ptr<Stream> stream_;
  Status status_;
  std::string why_;           // of status_
  bool failed_here_ = false;  // by `fail`: what came before is not handed out either
  bool closing_ = false;      // close() was called
  bool ended_ = false;        // our goodbye is in the queue; nothing may follow
  bool hung_up_ = false;      // the stream ends behind what it has now
  bool seen_dry_ = false;     // a read has found nothing
  bool news_ = false;         // somebody must be notified
  std::map<uint32_t, std::string> poisoned_;
  bool peer_ended_ = false;
  ConnectionCounts counts_;

  // what comes
  TagQueue<ReceiveOperation> receives_;  // their messages have not begun
  TagQueue<Incoming> waiting_;           // nobody receives them yet
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::unordered_map<uint32_t, Incoming*> unfinished_;  // more of them is to come
  std::vector<std::unique_ptr<Incoming>> spare_;
  uint64_t charged_ = 0;  // of own_budget
  uint64_t freed_ = 0;    // not yet told
  std::map<uint32_t, std::deque<std::string>> texts_;
  size_t texts_bytes_ = 0;
  std::vector<std::byte> staging_;
  size_t staging_read_ = kSmallRead;  // how much of it the next read asks for
  FrameHeader header_;
  size_t header_came_ = 0;
  size_t part_left_ = 0;
  std::byte* into_ = nullptr;  // where the part goes; null: nowhere
  Incoming* current_ = nullptr;
  std::string text_;  // a control message, as far as it has come
  uint32_t text_channel_ = 0;
  uint64_t text_total_ = 0;
  std::string body_;  // of another frame
  std::string* append_to_ = nullptr;

  // what goes
  std::deque<OutgoingFrame> urgent_;
  std::deque<ToBegin> to_begin_;
  std::deque<SendOperation*> granted_;  // have begun; more of them may go
  std::deque<OutgoingFrame> outgoing_;  // some of the first may be written
  // All of them is written, and not yet on its way before the stream has passed on that much.
  struct Kept {
    SendOperation* send;
    uint64_t until;
  };
  std::deque<Kept> kept_;
  TagQueue<SendOperation> ungranted_;
  std::unordered_map<uint32_t, SendOperation*> begun_;  // by message; more of them must go
  TagQueue<Credit> credits_;                            // owned
  uint64_t budget_left_ = 0;
  size_t texts_to_send_ = 0;  // bytes
  uint32_t next_message_ = 1;
  bool blocked_ = false;  // the stream is; its reactor will say more
  bool flushed_ = true;   // the stream keeps nothing
  std::optional<Status> write_failure_;
  std::mt19937_64 random_;
};

}  // namespace strata::wire
