#include "collective/shared_memory/shared_memory_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>

#include "collective/shared_memory/descriptor_exchange.h"
#include "core/thread.h"
#include "support/expect_error.h"
#include "support/log_lines.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

SharedWait patient() {
  return {.check = [](int, bool) { return std::optional<Status>(); }, .oversubscribed = true};
}

TEST(SharedHeaderTest, TheFirstFailureStays) {
  const auto header = std::make_unique<SharedHeader>();
  EXPECT_FALSE(header->failed());
  header->fail(Status(ErrorCode::kAborted, std::string(5000, 'x')));
  header->fail(Status(ErrorCode::kInternal, "later"));
  ASSERT_TRUE(header->failed());
  EXPECT_EQ(header->failed()->code(), ErrorCode::kAborted);
  EXPECT_EQ(header->failed()->message(), std::string(header->failure_text.size(), 'x'));
}

TEST(SharedHeaderTest, EveryIdHasALaneUntilThereIsNone) {
  const auto header = std::make_unique<SharedHeader>();
  const uint64_t most = SharedHeader::kMaxChannels;
  EXPECT_EQ(header->channel_of(7), header->channel_of(7));
  EXPECT_NE(header->channel_of(7), header->channel_of(7 + most));  // the next one that is free
  for (uint64_t key = 0; key < most - 1; ++key) header->channel_of(key);
  expect_error_containing([&] { header->channel_of(5 * most); }, ErrorCode::kResourceExhausted,
                          "calls of more than 4096 ids");
}

// A slot must stay as it is until all have read it, however far one rank runs ahead of another.
TEST(SharedLaneTest, SlotsAreNotWrittenWhileTheyAreRead) {
  constexpr int kRanks = 3;
  constexpr uint64_t kCalls = 5'000;
  const wire::FileDescriptor file =
      wire::make_memory_file("test", SharedMemoryChannel::offset(2, kRanks));
  std::vector<Thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back("rank", [&, rank] {
      SharedMemoryChannel channel(file, 1, rank, kRanks);
      for (uint64_t call = 0; call < kCalls; ++call) {
        const uint32_t first = channel.step();
        const uint64_t value = call * 10 + static_cast<uint64_t>(rank);
        std::memcpy(channel.slot(rank, first), &value, sizeof value);
        channel.publish_header({.call = call, .note = 0});
        channel.publish();
        channel.await(first, patient());
        for (int other = 0; other < kRanks; ++other) {
          uint64_t remote = 0;
          std::memcpy(&remote, channel.slot(other, first), sizeof remote);
          ASSERT_EQ(remote, call * 10 + static_cast<uint64_t>(other));
          ASSERT_EQ(channel.header_of(other, first).call, call);
        }
        channel.skip();
      }
    });
  }
}

TEST(SharedLaneTest, ALongWaitNamesTheRank) {
  strata::test::LogLines lines;
  const wire::FileDescriptor file =
      wire::make_memory_file("test", SharedMemoryChannel::offset(2, 2));
  std::string line;
  const Thread late("rank 1", [&] {
    SharedMemoryChannel channel(file, 0, 1, 2);
    line = lines.await({"[collective] waits for "});
    channel.publish();
  });
  SharedMemoryChannel channel(file, 0, 0, 2);
  const uint32_t first = channel.step();
  channel.publish();
  SharedWait wait = patient();
  wait.name = [](int rank) { return str_cat("rank ", rank, " (the late one)"); };
  wait.deadline = Clock::system().now() + 300s;
  channel.await(first, wait);
  EXPECT_EQ(line.find("[collective] waits for rank 1 (the late one); has it stopped, or is it "
                      "slower?; 5 of "),
            0u)
      << line;
}

TEST(SharedLaneTest, AWaitEndsWithWhatTheCheckSays) {
  const wire::FileDescriptor file =
      wire::make_memory_file("test", SharedMemoryChannel::offset(2, 2));
  SharedMemoryChannel channel(file, 0, 0, 2);
  const uint32_t first = channel.step();
  channel.publish();
  expect_error(
      [&] {
        channel.await(first, {.check = [](int rank, bool slept) -> std::optional<Status> {
                                if (!slept) return std::nullopt;
                                return Status(ErrorCode::kAborted, str_cat("no rank ", rank));
                              },
                              .oversubscribed = true});
      },
      ErrorCode::kAborted, "no rank 1");
}

TEST(DescriptorExchangeTest, AStrangerGetsNothing) {
  DescriptorExchange source;
  source.listen();
  // The name can be seen in /proc/net/unix; the secret behind it cannot.
  const wire::FileDescriptor stranger(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = "strata-" + source.address().substr(0, 32);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  ASSERT_EQ(::send(stranger.get(), "let me in", 9, 0), 9);

  DescriptorExchange other;
  other.connect(source.address(), [] {});
  source.accept(1, [] {});
  const wire::FileDescriptor sent = source.share(wire::make_memory_file("test", 8), [] {});
  const wire::FileDescriptor got = other.share({}, [] {});
  const wire::SharedMapping here(sent, 0, 8);
  const wire::SharedMapping there(got, 0, 8);
  here.data()[3] = std::byte{42};
  EXPECT_EQ(there.data()[3], std::byte{42});
  char byte;
  EXPECT_EQ(::recv(stranger.get(), &byte, 1, 0), 0);  // closed
}

TEST(DescriptorExchangeTest, RankZeroThatIsGoneIsAnError) {
  DescriptorExchange other;
  {
    DescriptorExchange source;
    source.listen();
    other.connect(source.address(), [] {});
    source.accept(1, [] {});
  }
  expect_error_containing([&] { static_cast<void>(other.share({}, [] {})); },
                          ErrorCode::kUnavailable, "rank 0 has closed its socket");
}

}  // namespace
}  // namespace strata::collective
