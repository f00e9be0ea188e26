#include "collective/shared_memory/descriptor_exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/random_hex.h"
#include "strata/core/error.h"
#include "wire/shared_memory.h"

namespace strata::collective {
namespace {

constexpr size_t kRandomBytes = 16;
constexpr int kSliceMs = 20;

[[noreturn]] void throw_system(const char* what) {
  const int error = errno;
  detail::throw_error(ErrorCode::kUnavailable, str_cat(what, ": ", wire::system_error_text(error)));
}

wire::FileDescriptor make_socket() {
  wire::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) throw_system("a Unix socket");
  return socket;
}

/// Names of the abstract kind begin with a zero byte.
socklen_t fill_name(const std::string& name, sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  const std::string path = "strata-" + name;
  std::memcpy(address.sun_path + 1, path.data(), path.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
}

bool same_user(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

/// Until the socket is ready for `events`, or has ended.
void await(int socket, short events, const DescriptorExchange::Check& check) {
  while (true) {
    pollfd wait = {.fd = socket, .events = events, .revents = 0};
    if (::poll(&wait, 1, kSliceMs) > 0) return;
    check();
  }
}

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// One byte and a descriptor.
struct Message {
  char byte = 'f';
  iovec part = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};

  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

void send_descriptor(int socket, int file, const DescriptorExchange::Check& check) {
  Message message;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(control), &file, sizeof file);
  while (::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0) {
    if (!try_again()) throw_system("sending a descriptor to another rank");
    await(socket, POLLOUT, check);
  }
}

wire::FileDescriptor receive_descriptor(int socket, const DescriptorExchange::Check& check) {
  Message message;
  ssize_t got = 0;
  while ((got = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC)) < 0) {
    if (!try_again()) throw_system("receiving a descriptor from rank 0");
    await(socket, POLLIN, check);
  }
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  STRATA_CHECK(got == 1 && control != nullptr && control->cmsg_type == SCM_RIGHTS, kUnavailable,
               "receiving a descriptor: rank 0 has closed its socket");
  int file = -1;
  std::memcpy(&file, CMSG_DATA(control), sizeof file);
  return wire::FileDescriptor(file);
}

}  // namespace

void DescriptorExchange::listen() {
  const std::string name = detail::random_hex(kRandomBytes);
  listener_ = make_socket();
  sockaddr_un address = {};
  const socklen_t size = fill_name(name, address);
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0) {
    throw_system("listening at an abstract Unix address");
  }
  address_ = name + detail::random_hex(kRandomBytes);
  source_ = true;
}

void DescriptorExchange::accept(int others, const Check& check) {
  while (peers_.size() < static_cast<size_t>(others)) {
    await(listener_.get(), POLLIN, check);
    wire::FileDescriptor peer(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.open()) {
      admit(std::move(peer), check);
    } else if (!try_again() && errno != ECONNABORTED) {
      throw_system("accepting another rank");
    }
  }
  listener_.close();
}

void DescriptorExchange::connect(const std::string& address, const Check& check) {
  STRATA_CHECK(address.size() == 4 * kRandomBytes, kUnavailable, "rank 0 listens nowhere");
  wire::FileDescriptor socket = make_socket();
  sockaddr_un to = {};
  const socklen_t size = fill_name(address.substr(0, 2 * kRandomBytes), to);
  while (::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), size) != 0) {
    if (!try_again()) throw_system("connecting to rank 0's Unix socket");
    ::poll(nullptr, 0, kSliceMs);  // its queue is full
    check();
  }
  STRATA_CHECK(same_user(socket.get()), kUnavailable, "rank 0 is another user's process");
  const std::string secret = address.substr(2 * kRandomBytes);
  if (::send(socket.get(), secret.data(), secret.size(), MSG_NOSIGNAL) < 0) {
    throw_system("writing to rank 0's Unix socket");
  }
  peers_.push_back(std::move(socket));
}

void DescriptorExchange::admit(wire::FileDescriptor peer, const Check& check) {
  if (!same_user(peer.get())) return;
  char said[2 * kRandomBytes] = {};
  ssize_t got = 0;
  while ((got = ::recv(peer.get(), said, sizeof said, 0)) < 0) {
    if (!try_again()) return;
    await(peer.get(), POLLIN, check);
  }
  const std::string secret = address_.substr(2 * kRandomBytes);
  if (std::string(said, static_cast<size_t>(got)) == secret) peers_.push_back(std::move(peer));
}

wire::FileDescriptor DescriptorExchange::share(wire::FileDescriptor file, const Check& check) {
  if (!source_) return receive_descriptor(peers_.at(0).get(), check);
  for (const wire::FileDescriptor& peer : peers_) send_descriptor(peer.get(), file.get(), check);
  return file;
}

}  // namespace strata::collective
