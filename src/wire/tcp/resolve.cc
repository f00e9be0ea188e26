#include "wire/tcp/resolve.h"

#include <netdb.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/thread.h"
#include "strata/core/error.h"
#include "wire/tcp/epoll_reactor.h"

namespace strata::wire {
namespace {

struct LookUp {
  Address address;
  int flags = 0;
  int failure = 0;
  int error = 0;
  std::vector<SocketAddress> found;
  std::atomic<bool> done{false};

  void run() {
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    failure = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                            std::to_string(address.port).c_str(), &hints, &list);
    error = errno;
    for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
      if (each->ai_addrlen > sizeof(sockaddr_storage)) continue;
      SocketAddress& one = found.emplace_back();
      std::memcpy(&one.address, each->ai_addr, each->ai_addrlen);
      one.size = each->ai_addrlen;
    }
    if (list != nullptr) ::freeaddrinfo(list);
    done.store(true, std::memory_order_release);
  }
};

}  // namespace

std::vector<SocketAddress> resolve(const Address& address, bool to_listen,
                                   const std::shared_ptr<ProgressEngine>& progress,
                                   Deadline deadline, const std::stop_token& stop) {
  const auto look_up = std::make_shared<LookUp>();
  look_up->address = address;
  look_up->flags = AI_NUMERICHOST | (to_listen ? AI_PASSIVE : 0);
  look_up->run();
  if (look_up->failure == EAI_NONAME && !address.host.empty()) {
    look_up->flags = to_listen ? AI_PASSIVE : 0;
    look_up->done.store(false);
    Thread thread("strata-resolve", [look_up, progress] {
      look_up->run();
      progress->notify();
    });
    thread.detach();
    const auto done = [&] { return look_up->done.load(std::memory_order_acquire); };
    if (!progress->wait_until(done, deadline, stop)) {
      STRATA_CHECK(!stop.stop_requested(), kCancelled, "[wire] connect: stopped looking up ",
                   address.host);
      strata::detail::throw_error(ErrorCode::kUnavailable,
                                  str_cat("looking up \"", address.host, "\" takes too long"));
    }
  }
  STRATA_CHECK(look_up->failure == 0 && !look_up->found.empty(), kUnavailable, "the name \"",
               address.host, "\" is not known: ",
               look_up->failure == EAI_SYSTEM ? std::strerror(look_up->error)
                                              : ::gai_strerror(look_up->failure));
  return std::move(look_up->found);
}

std::vector<SocketAddress> resolve(const Address& address, bool to_listen, Deadline deadline) {
  const auto alone = std::make_shared<ProgressEngine>(std::make_unique<EpollReactor>());
  return resolve(address, to_listen, alone, deadline, {});
}

}  // namespace strata::wire
