#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/fake_nccl/failure.h"
#include "gpu/fake_nccl/operation.h"
#include "gpu/fake_nccl/rendezvous.h"

namespace strata::test::fake_nccl {

enum class MessageKind : uint32_t {
  kCollective,  ///< An Announcement.
  kCollectiveData,
  kPosted,     ///< Announcements of the sends and receives of one group with this peer.
  kPointData,  ///< Of the next send that both have posted.
  kFault,      ///< A code and a text: the sender's communicator has failed.
  kGoodbye,    ///< The sender's communicator has been finalized.
};

using Bytes = std::vector<std::byte>;

/// What has come from a peer and waits to be taken.
struct Inbox {
  std::deque<Announcement> collectives;
  std::deque<Bytes> collective_data;
  std::deque<Announcement> sends;
  std::deque<Announcement> receives;
  std::deque<Bytes> point_data;
  bool departed = false;
};

/// The connections of one rank. A thread reads all that comes, at once and without a limit: so a rank that writes never waits for
/// one that writes, and a peer's end is seen while nothing is called.
class Transport {
 public:
  Transport(int rank, Mesh mesh, Health& health);
  ~Transport();

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(peers_.size()); }

  /// To a peer that has ended nothing is sent; whatever waits for it fails. @throws Stopped.
  void send(int peer, MessageKind kind, const void* data, size_t bytes);
  /// Bytes of tensors: they are counted.
  void send_data(int peer, MessageKind kind, const void* data, size_t bytes);

  /// To all peers.
  void send_fault(const Failure& failure);
  void send_goodbye();
  /// To peers that no part of a message is on the way to, without waiting. Not beside another thread that sends.
  void send_last_fault(const Failure& failure);

  /// Blocks until `done`, which is called with the inboxes locked, returns true.
  /// @throws Stopped.  Broken: the communicator has failed.  What `done` throws.
  void wait(const std::function<bool()>& done);

  /// In a wait's `done`, or where nothing else is running.
  Inbox& inbox(int peer) { return peers_[static_cast<size_t>(peer)].inbox; }

  /// The next data of a peer. @throws Stopped, Broken.  Failure  ncclRemoteError: the peer is finalized.
  Bytes receive_data(int peer);

  /// Lets wait() look at its conditions again.
  void wake();

  uint64_t bytes_sent(int peer) const;

 private:
  struct Header {
    MessageKind kind;
    uint32_t magic;
    uint64_t bytes;
  };
  struct Peer {
    Socket socket;
    bool other_host = false;
    Inbox inbox;
    uint64_t bytes_sent = 0;
    // Of the thread that sends.
    bool begun = false;
    bool unreachable = false;
    // Of the reader.
    bool ended = false;
    Header header{};
    size_t header_bytes = 0;
    Bytes payload;
    size_t payload_bytes = 0;
  };

  void read_all();
  void read_from(int rank, Peer& peer);
  bool read_more(Peer& peer);
  void deliver(int rank, Peer& peer);

  int rank_;
  Health& health_;
  mutable std::mutex mutex_;  ///< Of the inboxes and the counts.
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  StopSignal closing_;
  std::thread reader_;
};

}  // namespace strata::test::fake_nccl
