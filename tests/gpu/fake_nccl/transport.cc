#include "gpu/fake_nccl/transport.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "gpu/fake_nccl/counters.h"

namespace strata::test::fake_nccl {
namespace {

constexpr uint32_t kMagic = 0x4e43434c;

Bytes bytes_of(const Failure& failure) {
  Bytes bytes(sizeof(int32_t) + failure.text.size());
  const auto code = static_cast<int32_t>(failure.code);
  std::memcpy(bytes.data(), &code, sizeof(code));
  std::memcpy(bytes.data() + sizeof(code), failure.text.data(), failure.text.size());
  return bytes;
}

// What a peer's failure is here: a mistake of the callers is one on all ranks.
Failure failure_from(int rank, const Bytes& bytes) {
  int32_t code = 0;
  std::memcpy(&code, bytes.data(), sizeof(code));
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof(code),
                         bytes.size() - sizeof(code));
  if (code == ncclInvalidUsage) return {ncclInvalidUsage, text};
  return {ncclRemoteError, "rank " + std::to_string(rank) + ": " + text};
}

template <typename T>
std::deque<T>& append(std::deque<T>& to, const Bytes& bytes) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T item;
    std::memcpy(&item, bytes.data() + at, sizeof(T));
    to.push_back(item);
  }
  return to;
}

}  // namespace

Transport::Transport(int rank, Mesh mesh, Health& health)
    : rank_(rank), health_(health), peers_(mesh.sockets.size()) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].socket = std::move(mesh.sockets[i]);
    peers_[i].other_host = mesh.ranks[i].host != mesh.ranks[static_cast<size_t>(rank)].host;
    peers_[i].ended = !peers_[i].socket;
  }
  reader_ = std::thread([this] { read_all(); });
}

Transport::~Transport() {
  closing_.request();
  reader_.join();
}

void Transport::send(int rank, MessageKind kind, const void* data, size_t bytes) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.unreachable) return;
  const Header header{kind, kMagic, bytes};
  const Deadline none = Deadline::max();
  peer.begun = true;
  peer.unreachable = !send_all(peer.socket, &header, sizeof(header), health_.stop, none) ||
                     !send_all(peer.socket, data, bytes, health_.stop, none);
  peer.begun = false;
}

void Transport::send_data(int rank, MessageKind kind, const void* data, size_t bytes) {
  send(rank, kind, data, bytes);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  Counters::of_process().bytes_sent(rank, bytes, peer.other_host);
  const std::lock_guard lock(mutex_);
  peer.bytes_sent += bytes;
}

void Transport::send_fault(const Failure& failure) {
  const Bytes bytes = bytes_of(failure);
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank != rank_) send(rank, MessageKind::kFault, bytes.data(), bytes.size());
  }
}

void Transport::send_goodbye() {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank != rank_) send(rank, MessageKind::kGoodbye, nullptr, 0);
  }
}

void Transport::send_last_fault(const Failure& failure) {
  Bytes message(sizeof(Header));
  const Bytes bytes = bytes_of(failure);
  const Header header{MessageKind::kFault, kMagic, bytes.size()};
  std::memcpy(message.data(), &header, sizeof(header));
  message.insert(message.end(), bytes.begin(), bytes.end());
  for (const Peer& peer : peers_) {
    if (!peer.socket || peer.begun || peer.unreachable) continue;
    [[maybe_unused]] const ssize_t sent =
        ::send(peer.socket.fd(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Transport::wait(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  while (!done()) {
    if (health_.stop.requested()) throw Stopped{};
    if (health_.failed()) throw Broken{};
    changed_.wait(lock);
  }
}

Bytes Transport::receive_data(int rank) {
  Bytes data;
  wait([&] {
    Inbox& from = inbox(rank);
    if (from.collective_data.empty()) {
      if (!from.departed) return false;
      throw Failure{ncclRemoteError,
                    "rank " + std::to_string(rank) + " has destroyed its communicator"};
    }
    data = std::move(from.collective_data.front());
    from.collective_data.pop_front();
    return true;
  });
  return data;
}

void Transport::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

uint64_t Transport::bytes_sent(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_.at(static_cast<size_t>(peer)).bytes_sent;
}

void Transport::read_all() {
  ::pthread_setname_np(::pthread_self(), "nccl-reader");
  while (!closing_.requested()) {
    std::vector<pollfd> polled = {{closing_.fd(), POLLIN, 0}};
    std::vector<int> ranks;
    for (int rank = 0; rank < this->ranks(); ++rank) {
      const Peer& peer = peers_[static_cast<size_t>(rank)];
      if (peer.ended) continue;
      polled.push_back({peer.socket.fd(), POLLIN, 0});
      ranks.push_back(rank);
    }
    ::poll(polled.data(), polled.size(), -1);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i + 1].revents != 0) read_from(ranks[i], peers_[static_cast<size_t>(ranks[i])]);
    }
  }
}

// All that has come; at the end of the connection, the peer's end.
void Transport::read_from(int rank, Peer& peer) {
  while (read_more(peer)) {
    if (peer.header_bytes == sizeof(Header) && peer.payload_bytes == peer.payload.size()) {
      deliver(rank, peer);
      peer.header_bytes = 0;
      peer.payload = Bytes();
      peer.payload_bytes = 0;
    }
  }
  if (!peer.ended) return;
  const std::lock_guard lock(mutex_);
  if (!peer.inbox.departed) {
    health_.fail({ncclRemoteError, "rank " + std::to_string(rank) + " has ended"});
  }
  changed_.notify_all();
}

// False: nothing more has come.
bool Transport::read_more(Peer& peer) {
  const bool in_header = peer.header_bytes < sizeof(Header);
  char* const to = in_header ? reinterpret_cast<char*>(&peer.header) + peer.header_bytes
                             : reinterpret_cast<char*>(peer.payload.data()) + peer.payload_bytes;
  const size_t missing =
      in_header ? sizeof(Header) - peer.header_bytes : peer.payload.size() - peer.payload_bytes;
  const ssize_t got = ::recv(peer.socket.fd(), to, missing, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got <= 0) {
    peer.ended = true;
    return false;
  }
  if (!in_header) {
    peer.payload_bytes += static_cast<size_t>(got);
    return true;
  }
  peer.header_bytes += static_cast<size_t>(got);
  if (peer.header_bytes == sizeof(Header)) peer.payload.resize(peer.header.bytes);
  return true;
}

void Transport::deliver(int rank, Peer& peer) {
  const std::lock_guard lock(mutex_);
  Inbox& inbox = peer.inbox;
  switch (peer.header.kind) {
    case MessageKind::kCollective:
      append(inbox.collectives, peer.payload);
      break;
    case MessageKind::kCollectiveData:
      inbox.collective_data.push_back(std::move(peer.payload));
      break;
    case MessageKind::kPosted: {
      std::deque<Announcement> all;
      for (const Announcement& each : append(all, peer.payload)) {
        (each.kind == Kind::kSend ? inbox.sends : inbox.receives).push_back(each);
      }
      break;
    }
    case MessageKind::kPointData:
      inbox.point_data.push_back(std::move(peer.payload));
      break;
    case MessageKind::kFault:
      health_.fail(failure_from(rank, peer.payload));
      break;
    case MessageKind::kGoodbye:
      inbox.departed = true;
      break;
  }
  changed_.notify_all();
}

}  // namespace strata::test::fake_nccl
