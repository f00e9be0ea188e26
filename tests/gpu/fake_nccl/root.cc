#include "gpu/fake_nccl/root.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "gpu/fake_nccl/rendezvous.h"

namespace strata::test::fake_nccl {
namespace {

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

// Small messages, which a socket's buffer always takes.
template <typename T>
void send_small(const Socket& socket, const T& message) {
  [[maybe_unused]] const ssize_t sent =
      ::send(socket.fd(), &message, sizeof(message), MSG_NOSIGNAL);
}

class Root {
 public:
  Root(std::string folder, Socket listener)
      : folder_(std::move(folder)), listener_(std::move(listener)), thread_([this] { run(); }) {}

  /// Removes the folder, too.
  ~Root() {
    stop_.request();
    thread_.join();
    remove_folder();
  }

  bool ended() const { return ended_; }

 private:
  struct Rank {
    Socket socket;
    bool came = false;  ///< Its Hello.
    bool connected = false;
    Hello hello;
  };

  void run() {
    ::pthread_setname_np(::pthread_self(), "nccl-root");
    while (!stop_.requested() && !all_told()) step();
    ranks_.clear();
    listener_ = Socket();
    remove_folder();
    ended_ = true;
  }

  // Whether each rank has come, and knows the end.
  bool all_told() const {
    if (expected_ == 0 || (!failed_ && !released_)) return false;
    return count([](const Rank& rank) { return rank.came; }) >= expected_;
  }

  template <typename Predicate>
  int count(const Predicate& predicate) const {
    return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), predicate));
  }

  void step() {
    std::vector<pollfd> polled = {{stop_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    std::vector<Rank*> ranks;
    for (Rank& rank : ranks_) {
      if (!rank.socket) continue;
      polled.push_back({rank.socket.fd(), POLLIN, 0});
      ranks.push_back(&rank);
    }
    ::poll(polled.data(), polled.size(), -1);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i + 2].revents != 0) read_from(*ranks[i]);
    }
    if (polled[1].revents != 0) {
      if (auto socket = accept_from(listener_)) ranks_.emplace_back().socket = std::move(*socket);
    }
  }

  void read_from(Rank& rank) {
    if (!rank.came) {
      if (::recv(rank.socket.fd(), &rank.hello, sizeof(rank.hello), 0) == sizeof(rank.hello)) {
        rank.came = true;
        admit(rank);
      } else {
        fail(ncclRemoteError, "a rank has ended while a communicator was made");
        rank.socket = Socket();
      }
      return;
    }
    char connected = 0;
    if (::recv(rank.socket.fd(), &connected, sizeof(connected), 0) == sizeof(connected)) {
      rank.connected = true;
      if (!failed_ && count([](const Rank& each) { return each.connected; }) == expected_)
        release();
    } else {
      rank.socket = Socket();
      fail(ncclRemoteError,
           rank_name(rank.hello.rank) + " has ended while a communicator was made");
    }
  }

  void admit(Rank& rank) {
    const Hello& hello = rank.hello;
    if (expected_ == 0) expected_ = hello.ranks;
    if (failed_) {
      send_small(rank.socket, failure_);
    } else if (hello.failed != 0) {
      rank.socket = Socket();
      fail(ncclRemoteError, rank_name(hello.rank) + " has failed while a communicator was made");
    } else if (hello.ranks != expected_) {
      fail(ncclInvalidUsage, rank_name(hello.rank) + " expects " + std::to_string(hello.ranks) +
                                 " ranks, and another " + std::to_string(expected_));
    } else if (const Rank* other = same_place(rank)) {
      fail(ncclInvalidUsage, other->hello.rank == hello.rank
                                 ? "two callers are " + rank_name(hello.rank)
                                 : "ranks " + std::to_string(other->hello.rank) + " and " +
                                       std::to_string(hello.rank) + " have one device, " +
                                       std::to_string(hello.device));
    } else if (count([](const Rank& each) { return each.came; }) == expected_) {
      introduce();
    }
  }

  // Another that has the rank's number, or its device.
  const Rank* same_place(const Rank& rank) const {
    for (const Rank& other : ranks_) {
      if (&other == &rank || !other.came) continue;
      const bool one_device = rank.hello.device >= 0 && other.hello.device == rank.hello.device &&
                              other.hello.process == rank.hello.process;
      if (other.hello.rank == rank.hello.rank || one_device) return &other;
    }
    return nullptr;
  }

  // Tells all ranks who they are.
  void introduce() {
    std::vector<Hello> all(static_cast<size_t>(expected_));
    for (const Rank& rank : ranks_) all[static_cast<size_t>(rank.hello.rank)] = rank.hello;
    for (const Rank& rank : ranks_) {
      send_small(rank.socket, Reply());
      for (const Hello& each : all) send_small(rank.socket, each);
    }
  }

  void release() {
    released_ = true;
    for (const Rank& rank : ranks_) send_small(rank.socket, Reply());
  }

  void fail(ncclResult_t code, const std::string& text) {
    if (failed_ || released_) return;
    failed_ = true;
    failure_.code = code;
    std::copy_n(text.begin(), std::min(text.size(), failure_.text.size() - 1),
                failure_.text.begin());
    for (const Rank& rank : ranks_) {
      if (rank.came && rank.socket) send_small(rank.socket, failure_);
    }
  }

  void remove_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string folder_;
  StopSignal stop_;
  std::atomic<bool> ended_ = false;
  // Of the thread.
  Socket listener_;
  std::list<Rank> ranks_;
  int expected_ = 0;  ///< Ranks; 0: none has come.
  bool released_ = false;
  bool failed_ = false;
  Reply failure_;
  std::thread thread_;
};

struct Roots {
  std::mutex mutex;
  pid_t process = 0;
  std::list<std::unique_ptr<Root>>* all = nullptr;
};

Roots& roots() {
  static auto* const roots = new Roots();
  return *roots;
}

// A forked process has its parent's list without the threads, and leaves it.
void end_roots() {
  const std::lock_guard lock(roots().mutex);
  if (roots().process == ::getpid()) roots().all->clear();
}

void keep(std::unique_ptr<Root> root) {
  const std::lock_guard lock(roots().mutex);
  if (roots().process != ::getpid()) {
    roots().process = ::getpid();
    roots().all = new std::list<std::unique_ptr<Root>>();
    std::atexit(end_roots);
  }
  roots().all->remove_if([](const std::unique_ptr<Root>& each) { return each->ended(); });
  roots().all->push_back(std::move(root));
}

}  // namespace

ncclUniqueId make_unique_id() {
  std::string folder = "/tmp/fake_nccl.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw Failure{ncclSystemError, "no folder in /tmp"};
  auto listener = listen_at(root_path(folder));
  if (!listener) throw Failure{ncclSystemError, "no socket in " + folder};
  keep(std::make_unique<Root>(folder, std::move(*listener)));
  ncclUniqueId id{};
  std::copy(folder.begin(), folder.end(), id.internal);
  return id;
}

}  // namespace strata::test::fake_nccl
