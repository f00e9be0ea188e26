// Ranks in processes of their own, one of which is killed.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "gpu/fake_nccl/test_ranks.h"

namespace strata::test::fake_nccl {
namespace {

// A forked process and a way to talk to it. Its end is seen, too: the connection closes.
class Child {
 public:
  /// @param body  Runs in the process; its socket is the argument.
  explicit Child(const std::function<void(int socket)>& body) {
    int sockets[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) std::abort();
    process_ = ::fork();
    if (process_ == 0) {
      ::close(sockets[0]);
      body(sockets[1]);
      std::exit(testing::Test::HasFailure() ? 1 : 0);  // which ends threads of the library, too
    }
    ::close(sockets[1]);
    socket_ = sockets[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill();
    ::close(socket_);
  }

  int socket() const { return socket_; }

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  /// Whether it ends by itself within a minute, without a failure.
  bool ends_well() {
    pollfd polled{socket_, POLLIN, 0};
    if (::poll(&polled, 1, kPatienceMs) != 1) return false;
    int status = -1;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t process_ = -1;
  int socket_ = -1;
};

template <typename T>
void put(int socket, const T& value) {
  ASSERT_EQ(::send(socket, &value, sizeof(value), MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof(value)));
}

template <typename T>
T get(int socket) {
  T value{};
  pollfd polled{socket, POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, kPatienceMs), 1);
  EXPECT_EQ(::recv(socket, &value, sizeof(value), MSG_WAITALL),
            static_cast<ssize_t>(sizeof(value)));
  return value;
}

using Body = std::function<void(Rank&, int socket)>;

// A process for each rank. Rank 0 makes the identifier: this process has no thread of the library, and can be forked again.
std::vector<std::unique_ptr<Child>> in_processes(int ranks, const Body& body) {
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(std::make_unique<Child>([&, rank](int socket) {
      ncclUniqueId id;
      if (rank == 0) {
        ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
        put(socket, id);
      } else {
        id = get<ncclUniqueId>(socket);
      }
      Rank self{rank, ranks, nullptr, nullptr};
      self.stream = stream_of(&self);
      ::setenv("STRATA_FAKE_NCCL_HOST", rank < 2 ? "first" : "second", 1);
      ASSERT_EQ(ncclCommInitRank(&self.comm, ranks, id, rank), ncclSuccess)
          << ncclGetLastError(nullptr);
      body(self, socket);
      EXPECT_EQ(ncclCommDestroy(self.comm), ncclSuccess);
    }));
  }
  const auto id = get<ncclUniqueId>(children[0]->socket());
  for (int rank = 1; rank < ranks; ++rank) put(children[static_cast<size_t>(rank)]->socket(), id);
  return children;
}

class FakeNcclProcessesTest : public testing::TestWithParam<int> {};

TEST_P(FakeNcclProcessesTest, ComputeTogether) {
  const auto children = in_processes(GetParam(), [](Rank& self, int) {
    // More than a socket's buffer holds.
    constexpr size_t kCount = 300'001;
    std::vector<float> values(kCount, static_cast<float>(self.rank + 1));
    ASSERT_EQ(ncclAllReduce(values.data(), values.data(), kCount, ncclFloat32, ncclSum, self.comm,
                            self.stream),
              ncclSuccess);
    expect_done(self.stream);
    const auto expected = static_cast<float>(self.ranks * (self.ranks + 1) / 2);
    for (const float each : values) ASSERT_EQ(each, expected);

    std::vector<float> from(kCount, static_cast<float>(self.rank));
    const int next = (self.rank + 1) % self.ranks;
    const int previous = (self.rank + self.ranks - 1) % self.ranks;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(from.data(), kCount, ncclFloat32, next, self.comm, self.stream),
              ncclSuccess);
    ASSERT_EQ(ncclRecv(values.data(), kCount, ncclFloat32, previous, self.comm, self.stream),
              ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    expect_done(self.stream);
    for (const float each : values) ASSERT_EQ(each, static_cast<float>(previous));

    ncclComm_t half = nullptr;
    ASSERT_EQ(ncclCommSplit(self.comm, self.rank / 2, self.rank, &half, nullptr), ncclSuccess);
    int32_t ones = 1;
    ASSERT_EQ(ncclAllReduce(&ones, &ones, 1, ncclInt32, ncclSum, half, self.stream), ncclSuccess);
    expect_done(self.stream);
    EXPECT_EQ(ones, std::min(2, self.ranks - self.rank / 2 * 2));
    EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
    // Ranks 0 and 1 are one host, the others another.
    EXPECT_EQ(fake_nccl_bytes_to_other_hosts() > 0, (self.rank < 2) != (next < 2));
  });
  for (const auto& child : children) EXPECT_TRUE(child->ends_well());
}

INSTANTIATE_TEST_SUITE_P(Ranks, FakeNcclProcessesTest, testing::Values(1, 2, 3, 5));

TEST(FakeNcclKilledProcessTest, IsARemoteErrorAtItsPeersWhetherTheyWaitOrNot) {
  constexpr int kRanks = 3;
  const auto children = in_processes(kRanks, [](Rank& self, int socket) {
    float value = 1;
    ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, self.comm, self.stream),
              ncclSuccess);
    expect_done(self.stream);
    // Rank 0 waits for rank 1; rank 2 has called nothing.
    if (self.rank == 0) {
      ASSERT_EQ(ncclRecv(&value, 1, ncclFloat32, 1, self.comm, self.stream), ncclSuccess);
    }
    put(socket, 'r');
    const char go = get<char>(socket);  // rank 1 is killed here
    ASSERT_EQ(go, 'g');
    EXPECT_EQ(await_error(self.comm), ncclRemoteError);
    // The other may have aborted before this rank looked.
    const std::string text = ncclGetLastError(self.comm);
    EXPECT_TRUE(text == "rank 1 has ended" || text.ends_with(": its communicator has been aborted"))
        << text;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, self.comm, self.stream),
              ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(self.comm), ncclSuccess);
    self.comm = nullptr;
    EXPECT_EQ(fake_nccl_stream_synchronize(self.stream, 0), self.rank == 0 ? 2 : 0);
  });
  for (const auto& child : children) EXPECT_EQ(get<char>(child->socket()), 'r');
  children[1]->kill();
  for (const int rank : {0, 2}) {
    put(children[static_cast<size_t>(rank)]->socket(), 'g');
    EXPECT_TRUE(children[static_cast<size_t>(rank)]->ends_well());
  }
}

TEST(FakeNcclKilledProcessTest, WhileRanksConnectIsARemoteErrorToo) {
  // The rank that is killed has made the identifier, and waits for the other; so does the root, which ends with it.
  Child first([](int socket) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 3, id, 0, &config), ncclInProgress);
    put(socket, id);
    get<char>(socket);  // killed here
  });
  const auto id = get<ncclUniqueId>(first.socket());
  Child second([&](int socket) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 3, id, 1, &config), ncclInProgress);
    put(socket, 'r');
    EXPECT_TRUE(eventually([&] { return async_error(comm) == ncclRemoteError; }));
    EXPECT_STREQ(ncclGetLastError(comm), "the process that made the unique id has ended");
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
  EXPECT_EQ(get<char>(second.socket()), 'r');
  first.kill();
  EXPECT_TRUE(second.ends_well());
  // What a process that was killed leaves behind.
  std::filesystem::remove_all(id.internal);
}

}  // namespace
}  // namespace strata::test::fake_nccl
