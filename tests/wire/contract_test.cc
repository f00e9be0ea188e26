// What every wire promises, whatever carries the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "wire/wires.h"

namespace strata::wire {
namespace {

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Wires>()> make;
  bool small_budget = false;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  constexpr size_t kSmallLimit = 1000;
  constexpr size_t kSmallBudget = 5000;
  std::vector<Kind> all = {
      {"Memory", [] { return std::make_unique<MemoryWires>(); }},
      {"MemoryInPieces",
       [] {
         return std::make_unique<MemoryWires>(MemoryNetworkOptions{
             .seed = 7,
             .link = {.fragment = true, .jitter = std::chrono::microseconds(50)},
             .shuffle = true,
             .eager_limit = kSmallLimit,
             .eager_budget = kSmallBudget});
       }},
      {"MemoryInPiecesWithSecret",
       [] {
         return std::make_unique<MemoryWires>(
             MemoryNetworkOptions{
                 .seed = 8, .link = {.fragment = true, .jitter = std::chrono::microseconds(50)}},
             JobSecret::random());
       }},
      {"Socket", [] { return std::make_unique<SocketWires>(); }},
      {"SocketWithSecret",
       [] {
         return std::make_unique<SocketWires>(SocketOptions{.job_secret = JobSecret::random()});
       }},
      {"SocketSmallBudget",
       [] {
         return std::make_unique<SocketWires>(
             SocketOptions{.tls = {}, .eager_limit = kSmallLimit, .eager_budget = kSmallBudget});
       }},
  };
  if (socket_transport_has_tls())
    all.push_back({"Tls", [] { return std::make_unique<TlsWires>(); }});
  if (socket_transport_has_tls()) {
    all.push_back({"TlsWithSecret", [] {
                     return std::make_unique<TlsWires>(
                         SocketOptions{.job_secret = JobSecret::random()});
                   }});
  }
  if (has_ucx_transport()) {
    all.push_back({"Ucx", [] { return std::make_unique<UcxWires>(); }});
    all.push_back(
        {"UcxWithSecret",
         [] { return std::make_unique<UcxWires>(UcxOptions{.job_secret = JobSecret::random()}); }});
    all.push_back({"UcxSmallBudget", [] {
                     return std::make_unique<UcxWires>(
                         UcxOptions{.eager_limit = kSmallLimit, .eager_budget = kSmallBudget});
                   }});
  }
  return all;
}

class WireContractTest : public testing::TestWithParam<Kind> {
 protected:
  Mesh mesh(int tasks) {
    wires_ = GetParam().make();
    return Mesh(*wires_, tasks);
  }

  std::unique_ptr<Wires> wires_;
};

INSTANTIATE_TEST_SUITE_P(Wires, WireContractTest, testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const uint64_t drawn = random();
    std::memcpy(&bytes[i], &drawn, 8);
  }
  for (; i < size; ++i) bytes[i] = static_cast<std::byte>(random());
  return bytes;
}

constexpr size_t kSizes[] = {0, 1, 7, 999, 1000, 1001, 65536, 65537, 524288, 524289, 3'000'001};

TEST_P(WireContractTest, IntroducesBothSides) {
  Mesh pair = mesh(2);
  EXPECT_EQ(pair.connection(0, 1).peer(), hello_of(1));
  EXPECT_EQ(pair.connection(1, 0).peer(), hello_of(0));
  EXPECT_EQ(pair.connection(0, 1).address(), pair.address(1));
  EXPECT_EQ(pair.connection(0, 1).name(),
            str_cat("/job:worker/task:1 at ", pair.address(1).to_string()));
  EXPECT_TRUE(pair.connection(0, 1).status().ok());
}

TEST_P(WireContractTest, CarriesEverySizeWhicheverSideIsFirst) {
  Mesh pair = mesh(2);
  uint32_t id = 0;
  for (const size_t size : kSizes) {
    for (const bool receive_first : {true, false}) {
      const Tag tag = {.channel = 3, .id = ++id, .fingerprint = size};
      const Bytes sent = random_bytes(size, id);
      Bytes received(size);
      Transfer receive;
      if (receive_first) {
        receive = pair.connection(1, 0).receive(tag, received);
        pair.transport(1).progress();
        pair.transport(0).progress();
      }
      Transfer send = pair.connection(0, 1).send(tag, sent);
      if (!receive_first) {
        pair.transport(0).progress();
        pair.transport(1).progress();
        receive = pair.connection(1, 0).receive(tag, received);
      }
      Thread sender("sender",
                    [&] { EXPECT_EQ(pair.transport(0).wait(send, soon()).message(), ""); });
      ASSERT_EQ(pair.transport(1).wait(receive, soon()).message(), "");
      sender.join();
      EXPECT_EQ(receive.arrived(), size);
      ASSERT_TRUE(sent == received) << size;
    }
  }
  EXPECT_EQ(pair.connection(0, 1).counts().messages_sent, 2 * std::size(kSizes));
  EXPECT_EQ(pair.connection(1, 0).counts().messages_received, 2 * std::size(kSizes));
}

// Messages leave in one order, are received in another, and nobody waits for the other's order.
TEST_P(WireContractTest, OrderOfPostsDoesNotMatter) {
  Mesh pair = mesh(2);
  constexpr uint32_t kMessages = 200;
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
  for (uint32_t i = 0; i < kMessages; ++i) {
    sent.push_back(random_bytes((i * 7919) % 3000, i));
    received.emplace_back(sent.back().size());
  }
  std::vector<uint32_t> order(kMessages);
  for (uint32_t i = 0; i < kMessages; ++i) order[i] = i;
  std::mt19937 random(1);
  const auto tag = [](uint32_t i) { return Tag{.channel = i % 3, .id = i, .fingerprint = i}; };

  // One at a time, in opposite orders: each waits before it posts the next.
  Thread sender("sender", [&] {
    std::vector<Transfer> sends;
    for (const uint32_t i : order) sends.push_back(pair.connection(0, 1).send(tag(i), sent[i]));
    EXPECT_EQ(pair.transport(0).wait_all(sends, soon()).message(), "");
  });
  std::vector<uint32_t> other = order;
  std::ranges::shuffle(other, random);
  for (const uint32_t i : other) {
    Transfer receive = pair.connection(1, 0).receive(tag(i), received[i]);
    ASSERT_EQ(pair.transport(1).wait(receive, soon()).message(), "") << i;
    EXPECT_TRUE(received[i] == sent[i]) << i;
  }
  sender.join();
}

TEST_P(WireContractTest, EqualTagsAreMatchedInOrder) {
  Mesh pair = mesh(2);
  const Tag tag = {.channel = 1, .id = 1, .fingerprint = 5};
  constexpr size_t kCount = 20;
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
  std::vector<Transfer> transfers;
  for (size_t i = 0; i < kCount; ++i) {
    sent.push_back(random_bytes(i % 3 == 0 ? 100'000 : 10, i));
    received.emplace_back(sent[i].size());
  }
  for (size_t i = 0; i < kCount / 2; ++i)
    transfers.push_back(pair.connection(1, 0).receive(tag, received[i]));
  for (size_t i = 0; i < kCount; ++i) transfers.push_back(pair.connection(0, 1).send(tag, sent[i]));
  for (size_t i = kCount / 2; i < kCount; ++i)
    transfers.push_back(pair.connection(1, 0).receive(tag, received[i]));
  const auto all_done = [&] { return std::ranges::all_of(transfers, &Transfer::done); };
  Thread other("other", [&] { pair.transport(0).wait_until(all_done, soon()); });
  EXPECT_TRUE(pair.transport(1).wait_until(all_done, soon()));
  pair.transport(0).wake();
  other.join();
  for (Transfer& transfer : transfers) EXPECT_EQ(transfer.status().message(), "");
  for (size_t i = 0; i < kCount; ++i) EXPECT_TRUE(sent[i] == received[i]) << i;
}

// A large message that nobody receives must not keep others from arriving, in either direction.
TEST_P(WireContractTest, WhatNobodyReceivesBlocksNothing) {
  Mesh pair = mesh(2);
  const Bytes large = random_bytes(20'000'000, 1);
  const Bytes small = random_bytes(50, 2);
  std::vector<Transfer> never;
  for (const int side : {0, 1}) {
    for (uint32_t i = 0; i < 300; ++i) {
      const Bytes& bytes = i % 30 == 0 ? large : i % 2 == 0 ? large : small;
      never.push_back(pair.connection(side, 1 - side)
                          .send({.channel = 9, .id = i, .fingerprint = 0},
                                std::span(bytes).first(i % 30 == 0 ? bytes.size() : 40)));
    }
  }
  Bytes received[2] = {Bytes(2'000'000), Bytes(2'000'000)};
  std::vector<Thread> threads;
  for (const int side : {0, 1}) {
    threads.emplace_back("side", [&, side] {
      Transport& transport = pair.transport(side);
      Connection& connection = pair.connection(side, 1 - side);
      for (uint32_t i = 0; i < 20; ++i) {
        const Tag tag = {.channel = 1, .id = i, .fingerprint = 0};
        const size_t size = i % 2 == 0 ? 2'000'000 : 20;
        Transfer both[] = {connection.send(tag, std::span(large).subspan(i, size)),
                           connection.receive(tag, std::span(received[side]).first(size))};
        EXPECT_EQ(transport.wait_all(both, soon()).message(), "");
        EXPECT_TRUE(
            std::equal(received[side].begin(), received[side].begin() + size, large.begin() + i));
      }
    });
  }
}

TEST_P(WireContractTest, RandomExchangesBetweenSeveralTasks) {
  for (const int tasks : {2, 3, 5}) {
    Mesh all = mesh(tasks);
    const int messages = 6000 / (tasks * (tasks - 1));
    const auto size_of = [](uint64_t seed) -> size_t {
      std::mt19937_64 random(seed);
      const uint64_t magnitude = random() % 20;
      return magnitude == 0 ? 0 : random() % (size_t{1} << magnitude);
    };
    const auto seed_of = [&](int from, int to, int i) {
      return static_cast<uint64_t>((from * tasks + to) * 100'000 + i);
    };
    std::vector<Thread> threads;
    for (int task = 0; task < tasks; ++task) {
      threads.emplace_back("task", [&, task] {
        std::mt19937 random(task);
        struct Job {
          bool send;
          int peer;
          int i;
        };
        std::vector<Job> jobs;
        for (int peer = 0; peer < tasks; ++peer) {
          if (peer == task) continue;
          for (int i = 0; i < messages; ++i) {
            jobs.push_back({true, peer, i});
            jobs.push_back({false, peer, i});
          }
        }
        std::ranges::shuffle(jobs, random);
        // Waiting for one in order while the peer waits for another would be the caller's own
        // deadlock: all are posted, and now and then what is done is looked at.
        std::vector<Bytes> buffers(jobs.size());
        std::vector<Transfer> transfers;
        for (size_t k = 0; k < jobs.size(); ++k) {
          const auto [send, peer, i] = jobs[k];
          const uint64_t seed = send ? seed_of(task, peer, i) : seed_of(peer, task, i);
          const Tag tag = {.channel = static_cast<uint32_t>(i % 4),
                           .id = static_cast<uint32_t>(i),
                           .fingerprint = seed};
          Connection& connection = all.connection(task, peer);
          if (send) {
            buffers[k] = random_bytes(size_of(seed), seed);
            transfers.push_back(connection.send(tag, buffers[k]));
          } else {
            buffers[k].resize(size_of(seed));
            transfers.push_back(connection.receive(tag, buffers[k]));
          }
          if (k % 50 == 0) all.transport(task).progress();
        }
        ASSERT_EQ(all.transport(task).wait_all(transfers, soon()).message(), "");
        for (size_t k = 0; k < jobs.size(); ++k) {
          const auto [send, peer, i] = jobs[k];
          if (send) continue;
          const uint64_t seed = seed_of(peer, task, i);
          ASSERT_TRUE(buffers[k] == random_bytes(size_of(seed), seed));
        }
      });
    }
    threads.clear();
  }
}

// Once its send is done, the sender may do other things for as long as it likes.
TEST_P(WireContractTest, WhatIsSentArrivesWithoutTheSendersHelp) {
  Mesh pair = mesh(2);
  const Bytes bytes = random_bytes(30'000'000, 1);
  Bytes received(bytes.size());
  Transfer receive = pair.connection(1, 0).receive({}, received);
  std::atomic<bool> sent = false;
  Thread sender("sender", [&] {
    Transfer send = pair.connection(0, 1).send({}, bytes);
    EXPECT_EQ(pair.transport(0).wait(send, soon()).message(), "");
    sent = true;
  });
  // Slowly, so that there is more on the way than fits.
  const Deadline limit = soon();
  while (!sent && !limit.passed()) {
    pair.transport(1).progress();
    std::this_thread::yield();
  }
  sender.join();
  EXPECT_EQ(pair.transport(1).wait(receive, soon()).message(), "");
  EXPECT_TRUE(received == bytes);
}

// Many threads of one task wait at once, each for its own messages.
TEST_P(WireContractTest, ManyThreadsWaitAtOnce) {
  Mesh pair = mesh(2);
  constexpr uint32_t kThreads = 8;
  constexpr uint32_t kRounds = 100;
  std::vector<Thread> threads;
  for (const int side : {0, 1}) {
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back("waiter", [&, side, thread] {
        const size_t size = thread % 2 == 0 ? 64 : 100'000;
        Bytes out(size);
        Bytes in(size);
        for (uint32_t round = 0; round < kRounds; ++round) {
          const Tag tag = {.channel = thread, .id = round, .fingerprint = 1};
          std::ranges::fill(out, static_cast<std::byte>(round + thread + side));
          Transfer both[] = {pair.connection(side, 1 - side).receive(tag, in),
                             pair.connection(side, 1 - side).send(tag, out)};
          ASSERT_EQ(pair.transport(side).wait_all(both, soon()).message(), "");
          const auto expected = static_cast<std::byte>(round + thread + 1 - side);
          ASSERT_TRUE(std::ranges::all_of(in, [&](std::byte b) { return b == expected; }));
        }
      });
    }
  }
}

TEST_P(WireContractTest, ControlMessagesComeInOrderWithinAChannel) {
  Mesh pair = mesh(2);
  const std::string large(3'000'000, 'x');
  constexpr int kCount = 300;
  std::atomic<bool> heard = false;
  Thread sender("sender", [&] {
    for (int i = 0; i < kCount; ++i) {
      pair.connection(0, 1).send_message(i % 2, std::to_string(i));
      if (i == 100) pair.connection(0, 1).send_message(7, large);
    }
    pair.connection(0, 1).send_message(7, "");
    EXPECT_EQ(pair.connection(0, 1).receive_message(1, soon()), "thanks");
    heard = true;
    pair.transport(1).wake();
  });
  Connection& connection = pair.connection(1, 0);
  for (int i = 1; i < kCount; i += 2)
    EXPECT_EQ(connection.receive_message(1, soon()), std::to_string(i));
  for (int i = 0; i < kCount; i += 2)
    EXPECT_EQ(connection.receive_message(0, soon()), std::to_string(i));
  EXPECT_TRUE(connection.receive_message(7, soon()) == large);
  EXPECT_EQ(connection.receive_message(7, soon()), "");
  EXPECT_EQ(connection.try_receive_message(7), std::nullopt);
  connection.send_message(1, "thanks");
  // The call may have left some of it for whoever waits here.
  EXPECT_TRUE(pair.transport(1).wait_until([&] { return heard.load(); }, soon()));
}

TEST_P(WireContractTest, ControlMessagesHaveALimit) {
  Mesh pair = mesh(2);
  const std::string text(Connection::kMaxMessage + 1, 'x');
  expect_error([&] { pair.connection(0, 1).send_message(0, text); },
               str_cat("[wire] send_message: got 16777217 bytes for ", pair.connection(0, 1).name(),
                       "; expected at most 16777216 (tensors go with send)"));
  expect_error_containing(
      [&] {
        for (int i = 0; i < 6; ++i)
          pair.connection(0, 1).send_message(0, std::string_view(text).substr(1));
      },
      ErrorCode::kResourceExhausted, "bytes of control messages wait to be sent to");
}

// What a peer sends and nobody takes must not fill the memory.
TEST_P(WireContractTest, ControlMessagesThatNobodyTakesEndTheConnection) {
  Mesh pair = mesh(2);
  const std::string text(Connection::kMaxMessage, 'x');
  Thread receiver("receiver", [&] {
    pair.transport(1).wait_until([&] { return !pair.connection(1, 0).status().ok(); }, soon());
  });
  try {
    for (int i = 0; i < 6; ++i) {
      const auto counts = [&] { return pair.connection(0, 1).counts().messages_sent; };
      const auto before = counts();
      pair.connection(0, 1).send_message(0, text);
      pair.transport(0).wait_until(
          [&] { return counts() > before || !pair.connection(0, 1).status().ok(); }, soon());
    }
  } catch (const Error&) {  // broken off while we send
  }
  receiver.join();
  EXPECT_EQ(pair.connection(1, 0).status().code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(pair.connection(1, 0).status().message().find("that are not received"),
            std::string::npos);
}

TEST_P(WireContractTest, EveryWaitHasADeadline) {
  Mesh pair = mesh(2);
  Bytes bytes(10);
  Transfer receive =
      pair.connection(1, 0).receive({.channel = 2, .id = 3, .fingerprint = 0}, bytes);
  const auto limit = std::chrono::milliseconds(30);
  const auto begin = Deadline::Clock::now();
  const Status status = pair.transport(1).wait(receive, Deadline::after(limit));
  EXPECT_GE(Deadline::Clock::now() - begin, limit);
  EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            str_cat("[wire] wait: the deadline passed before the receive of 10 bytes (channel 2, "
                    "id 3) from ",
                    pair.connection(1, 0).name(),
                    " was done; is the peer alive, and does it make the same calls?"));
  EXPECT_FALSE(receive.done());
  expect_error([&] { (void)receive.status(); }, ErrorCode::kFailedPrecondition,
               str_cat("[wire] status: the receive of 10 bytes (channel 2, id 3) from ",
                       pair.connection(1, 0).name(), " is not done; wait for it first"));
  expect_error_containing([&] { pair.connection(1, 0).receive_message(5, Deadline::after(limit)); },
                          ErrorCode::kDeadlineExceeded,
                          "the deadline passed before a message (channel 5) came from");
  expect_error([&] { pair.transport(1).accept(Deadline::after(limit)); },
               ErrorCode::kDeadlineExceeded,
               "[wire] accept: the deadline passed before a peer came in");

  // It can still be done.
  Transfer send = pair.connection(0, 1).send({.channel = 2, .id = 3, .fingerprint = 0}, bytes);
  EXPECT_TRUE(pair.transport(1).wait(receive, soon()).ok());
}

TEST_P(WireContractTest, AWaitCanBeStopped) {
  Mesh pair = mesh(2);
  Bytes bytes(10);
  Transfer receive =
      pair.connection(1, 0).receive({.channel = 0, .id = 0, .fingerprint = 0}, bytes);
  std::stop_source source;
  Thread stopper("stopper", [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it is asleep, mostly
    source.request_stop();
  });
  EXPECT_EQ(pair.transport(1).wait(receive, soon(), source.get_token()).code(),
            ErrorCode::kCancelled);
  expect_error_containing(
      [&] { pair.connection(1, 0).receive_message(0, soon(), source.get_token()); },
      ErrorCode::kCancelled, "stopped waiting for a message (channel 0) from");
  expect_error([&] { pair.transport(1).accept(soon(), source.get_token()); }, ErrorCode::kCancelled,
               "[wire] accept: stopped waiting for a peer");
}

TEST_P(WireContractTest, ACancelledReceiveKeepsItsPlace) {
  for (const size_t size : {size_t{100}, size_t{700'000}}) {
    Mesh pair = mesh(2);
    const Tag tag = {.channel = 0, .id = 1, .fingerprint = 0};
    const Bytes first = random_bytes(size, 1);
    const Bytes second = random_bytes(size, 2);
    Bytes received(size);
    Transfer cancelled = pair.connection(1, 0).receive(tag, received);
    pair.transport(1).progress();
    cancelled.cancel();
    ASSERT_TRUE(cancelled.done());
    EXPECT_EQ(cancelled.status().code(), ErrorCode::kCancelled);
    std::vector<Transfer> sends;
    sends.push_back(pair.connection(0, 1).send(tag, first));
    sends.push_back(pair.connection(0, 1).send(tag, second));
    Thread sender("sender",
                  [&] { EXPECT_EQ(pair.transport(0).wait_all(sends, soon()).message(), ""); });
    Transfer receive = pair.connection(1, 0).receive(tag, received);
    EXPECT_EQ(pair.transport(1).wait(receive, soon()).message(), "");
    EXPECT_TRUE(received == second);
    sender.join();
  }
}

TEST_P(WireContractTest, ACancelledSendEndsItsReceive) {
  // One that has gone already, one that waits for its receive, one with a receive.
  Mesh pair = mesh(2);
  const Bytes bytes = random_bytes(900'000, 1);
  Bytes received(bytes.size());
  const Tag tag = {.channel = 0, .id = 1, .fingerprint = 0};
  Transfer send = pair.connection(0, 1).send(tag, bytes);
  ASSERT_FALSE(send.done());
  pair.transport(1).progress();
  send.cancel();
  EXPECT_EQ(send.status().code(), ErrorCode::kCancelled);
  const auto cancelled = [&] {
    Transfer receive = pair.connection(1, 0).receive(tag, received);
    Thread sender("sender",
                  [&] { pair.transport(0).wait_until([&] { return receive.done(); }, soon()); });
    const Status status = pair.transport(1).wait(receive, soon());
    pair.transport(0).wake();
    return status;
  };
  Status status = cancelled();
  EXPECT_EQ(status.code(), ErrorCode::kCancelled);
  EXPECT_EQ(status.message(),
            str_cat("[wire] receive of 900000 bytes (channel 0, id 1) from ",
                    pair.connection(1, 0).name(), ": the peer has cancelled the send"));
  // The connection goes on.
  Transfer receive = pair.connection(1, 0).receive(tag, received);
  Transfer again = pair.connection(0, 1).send(tag, bytes);
  Thread sender("sender", [&] { EXPECT_TRUE(pair.transport(0).wait(again, soon()).ok()); });
  EXPECT_EQ(pair.transport(1).wait(receive, soon()).message(), "");
  EXPECT_TRUE(received == bytes);
}

// At random moments, in every state that a transfer can be in.
TEST_P(WireContractTest, CancellingAtRandomLeavesTheOthersWhole) {
  Mesh pair = mesh(2);
  constexpr uint32_t kMessages = 400;
  std::vector<Thread> threads;
  std::vector<Bytes> sent(kMessages);
  for (uint32_t i = 0; i < kMessages; ++i) sent[i] = random_bytes((i * 104729) % 200'000, i);
  std::atomic<int> delivered{0};
  std::atomic<int> cancelled{0};
  std::atomic<bool> finished[2] = {false, false};
  for (const int side : {0, 1}) {
    threads.emplace_back("side", [&, side] {
      std::mt19937 random(side);
      std::vector<Bytes> received(kMessages);
      std::vector<Transfer> transfers(kMessages);
      for (uint32_t i = 0; i < kMessages; ++i) {
        const Tag tag = {.channel = 0, .id = i % 50, .fingerprint = 0};
        Bytes& local = received[i];
        // Equal tags: sizes must be the same.
        local = side == 0 ? sent[i % 50] : Bytes(sent[i % 50].size());
        transfers[i] = side == 0 ? pair.connection(0, 1).send(tag, local)
                                 : pair.connection(1, 0).receive(tag, local);
        if (random() % 4 == 0) pair.transport(side).progress();
        if (random() % 4 == 0) {
          Transfer& victim = transfers[random() % (i + 1)];
          const bool done = victim.done();
          victim.cancel();
          // Nobody reads or writes it now: a sanitizer would tell.
          if (!done) received[&victim - transfers.data()] = {};
        }
      }
      const auto settled = [&] { return std::ranges::all_of(transfers, &Transfer::done); };
      EXPECT_TRUE(pair.transport(side).wait_until(settled, soon()));
      finished[side] = true;
      for (uint32_t i = 0; i < kMessages; ++i) {
        const Status status = transfers[i].status();
        if (status.ok()) {
          if (side == 1) {
            EXPECT_TRUE(received[i] == sent[i % 50]) << i;
            ++delivered;
          }
        } else {
          EXPECT_EQ(status.code(), ErrorCode::kCancelled) << status.message();
          ++cancelled;
        }
      }
      EXPECT_TRUE(
          pair.transport(side).wait_until([&] { return finished[1 - side].load(); }, soon()));
    });
  }
  threads.clear();
  EXPECT_GT(delivered, 100);
  EXPECT_GT(cancelled, 50);
  EXPECT_TRUE(pair.connection(0, 1).status().ok());
  EXPECT_TRUE(pair.connection(1, 0).status().ok());
}

// Both sides are told what each of them did, and the channel is of no use from there on.
TEST_P(WireContractTest, DisagreementNamesBothSides) {
  struct Case {
    size_t sent_bytes, received_bytes;
    uint64_t sent_fingerprint, received_fingerprint;
  };
  for (const Case& c :
       {Case{500, 500, 0x1f, 0x2a}, Case{500, 499, 7, 7}, Case{100, 200'000, 7, 7},
        Case{200'000, 100, 7, 7}, Case{0, 1, 7, 7}, Case{1'000'000, 1'000'000, 7, 8}}) {
    for (const bool receive_first : {true, false}) {
      Mesh pair = mesh(2);
      const Bytes sent(c.sent_bytes);
      Bytes received(c.received_bytes);
      Bytes other(8);
      const Tag out = {.channel = 4, .id = 5, .fingerprint = c.sent_fingerprint};
      const Tag in = {.channel = 4, .id = 5, .fingerprint = c.received_fingerprint};
      Transfer also =
          pair.connection(0, 1).receive({.channel = 4, .id = 9, .fingerprint = 0}, other);
      Transfer elsewhere =
          pair.connection(0, 1).receive({.channel = 5, .id = 9, .fingerprint = 0}, other);
      Transfer receive;
      if (receive_first) receive = pair.connection(1, 0).receive(in, received);
      Transfer send = pair.connection(0, 1).send(out, sent);
      if (!receive_first) {
        pair.transport(1).progress();
        receive = pair.connection(1, 0).receive(in, received);
      }
      const Status at_receiver = pair.transport(1).wait(receive, soon());
      std::atomic<bool> told{false};
      Thread teller("teller",
                    [&] { pair.transport(1).wait_until([&] { return told.load(); }, soon()); });
      const Status at_sender = pair.transport(0).wait(also, soon());
      const auto hex = [](uint64_t value) {
        char text[32];
        std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(value));
        return std::string(text);
      };
      const std::string both =
          str_cat("/job:worker/task:1 receives ", c.received_bytes, " bytes with fingerprint ",
                  hex(c.received_fingerprint), " where /job:worker/task:0 sends ", c.sent_bytes,
                  " bytes with fingerprint ", hex(c.sent_fingerprint),
                  "; every task must make the same calls");
      EXPECT_EQ(at_receiver.code(), ErrorCode::kFailedPrecondition);
      EXPECT_EQ(at_receiver.message(),
                str_cat("[wire] receive of ", c.received_bytes, " bytes (channel 4, id 5) from ",
                        pair.connection(1, 0).name(), ": ", both));
      EXPECT_EQ(at_sender.code(), ErrorCode::kFailedPrecondition);
      EXPECT_EQ(at_sender.message(), str_cat("[wire] receive of 8 bytes (channel 4, id 9) from ",
                                             pair.connection(0, 1).name(), ": ", both));
      ASSERT_TRUE(send.done());
      Transfer later = pair.connection(0, 1).send(out, sent);
      ASSERT_TRUE(later.done());
      EXPECT_NE(later.status().message().find(both), std::string::npos) << later.status().message();
      // Other channels go on.
      Transfer answer =
          pair.connection(1, 0).send({.channel = 5, .id = 9, .fingerprint = 0}, other);
      EXPECT_EQ(pair.transport(0).wait(elsewhere, soon()).message(), "");
      told = true;
      pair.transport(1).wake();
    }
  }
}

TEST_P(WireContractTest, FailEndsEverythingWithTheReason) {
  Mesh pair = mesh(2);
  Bytes bytes(300'000);
  const Tag tag = {.channel = 0, .id = 1, .fingerprint = 0};
  Transfer receive = pair.connection(0, 1).receive(tag, bytes);
  Transfer send = pair.connection(0, 1).send(tag, bytes);
  Transfer peers = pair.connection(1, 0).receive({.channel = 0, .id = 2, .fingerprint = 0}, bytes);
  std::string message;
  Thread waiter("waiter", [&] {
    Bytes more(10);
    Transfer also = pair.connection(0, 1).receive({.channel = 0, .id = 3, .fingerprint = 0}, more);
    EXPECT_EQ(pair.transport(0).wait(also, soon()).code(), ErrorCode::kUnavailable);
    expect_error_containing([&] { pair.connection(0, 1).receive_message(0, soon()); },
                            ErrorCode::kUnavailable, "no heartbeat for 10 s");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  pair.connection(0, 1).fail({ErrorCode::kUnavailable, "no heartbeat for 10 s"});
  waiter.join();
  ASSERT_TRUE(receive.done() && send.done());
  EXPECT_EQ(receive.status().message(),
            str_cat("[wire] receive of 300000 bytes (channel 0, id 1) from ",
                    pair.connection(0, 1).name(), ": no heartbeat for 10 s"));
  EXPECT_EQ(send.status().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(pair.connection(0, 1).status().message(),
            str_cat("[wire] ", pair.connection(0, 1).name(), ": no heartbeat for 10 s"));
  // The first failure stays.
  pair.connection(0, 1).fail({ErrorCode::kInternal, "another"});
  EXPECT_EQ(pair.connection(0, 1).status().code(), ErrorCode::kUnavailable);
  Transfer later = pair.connection(0, 1).send(tag, bytes);
  EXPECT_EQ(later.status().code(), ErrorCode::kUnavailable);
  expect_error_containing([&] { pair.connection(0, 1).send_message(0, "x"); },
                          ErrorCode::kUnavailable, "no heartbeat for 10 s");
  const Status at_peer = pair.transport(1).wait(peers, soon());
  EXPECT_EQ(at_peer.code(), ErrorCode::kUnavailable);
  EXPECT_NE(at_peer.message().find(pair.connection(1, 0).name()), std::string::npos);
}

TEST_P(WireContractTest, CloseDeliversWhatWasSent) {
  Mesh pair = mesh(2);
  const Bytes bytes = random_bytes(500, 1);
  Bytes received(bytes.size());
  Transfer send = pair.connection(0, 1).send({.channel = 0, .id = 1, .fingerprint = 0}, bytes);
  pair.connection(0, 1).send_message(3, "bye");
  Transfer pending =
      pair.connection(0, 1).receive({.channel = 0, .id = 9, .fingerprint = 0}, received);
  Thread closer("closer", [&] { pair.connection(0, 1).close(soon()); });
  Transfer never =
      pair.connection(1, 0).receive({.channel = 0, .id = 2, .fingerprint = 0}, received);
  const Status status = pair.transport(1).wait(never, soon());
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(status.message(),
            str_cat("[wire] receive of 500 bytes (channel 0, id 2) from ",
                    pair.connection(1, 0).name(), ": the peer has closed the connection"));
  closer.join();
  EXPECT_TRUE(send.status().ok());
  EXPECT_EQ(pending.status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(pair.connection(0, 1).status().code(), ErrorCode::kCancelled);
  // What came before is still there.
  Transfer receive =
      pair.connection(1, 0).receive({.channel = 0, .id = 1, .fingerprint = 0}, received);
  EXPECT_EQ(pair.transport(1).wait(receive, soon()).message(), "");
  EXPECT_TRUE(received == bytes);
  EXPECT_EQ(pair.connection(1, 0).receive_message(3, soon()), "bye");
  EXPECT_THROW(pair.connection(1, 0).receive_message(3, soon()), Error);
  pair.connection(1, 0).close(soon());
}

TEST_P(WireContractTest, BothMayCloseAtOnce) {
  Mesh pair = mesh(2);
  Bytes bytes(100'000);
  const auto begin = Deadline::Clock::now();
  std::vector<Thread> threads;
  for (const int side : {0, 1}) {
    threads.emplace_back("closer", [&, side] {
      const Tag tag = {.channel = 0, .id = static_cast<uint32_t>(side), .fingerprint = 0};
      Transfer send = pair.connection(side, 1 - side).send(tag, bytes);
      pair.connection(side, 1 - side).close(soon());
      EXPECT_TRUE(send.done());
    });
  }
  threads.clear();
  EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(10));
}

TEST_P(WireContractTest, AConnectionThatIsLetGoEndsItsTransfers) {
  Mesh pair = mesh(2);
  Bytes bytes(100'000);
  Transfer receive = pair.connection(0, 1).receive({}, bytes);
  Transfer send = pair.connection(0, 1).send({}, bytes);
  Transfer peers = pair.connection(1, 0).receive({.channel = 1, .id = 0, .fingerprint = 0}, bytes);
  pair.handle(0, 1).reset();
  ASSERT_TRUE(receive.done() && send.done());
  EXPECT_EQ(receive.status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(receive.describe(),
            "receive of 100000 bytes (channel 0, id 0) from a closed connection");
  EXPECT_EQ(pair.transport(1).wait(peers, soon()).code(), ErrorCode::kUnavailable);
}

TEST_P(WireContractTest, ATransportThatGoesEndsItsConnections) {
  const auto wires = GetParam().make();
  auto here = wires->transport(0);
  auto there = wires->transport(1);
  const Address address = there->listen(wires->place(1), hello_of(1));
  std::shared_ptr<Connection> accepted;
  Thread acceptor("acceptor", [&] { accepted = there->accept(soon()); });
  auto connection = here->connect(address, hello_of(0), soon());
  acceptor.join();
  Bytes bytes(10);
  Transfer receive = connection->receive({}, bytes);
  Transfer peers = accepted->receive({}, bytes);
  here.reset();
  EXPECT_EQ(receive.status().code(), ErrorCode::kCancelled);
  EXPECT_NE(receive.status().message().find("its transport was destroyed"), std::string::npos);
  EXPECT_EQ(there->wait(peers, soon()).code(), ErrorCode::kUnavailable);
}

TEST_P(WireContractTest, StrangersAreRefused) {
  const auto wires = GetParam().make();
  auto here = wires->transport(0);
  auto there = wires->transport(1);
  const Address address =
      there->listen(wires->place(1), hello_of(1), {.admit = [](const Hello& peer, const Address&) {
                      if (peer.generation == 7)
                        return Status(ErrorCode::kAborted, "generation 7 is of the past");
                      return Status();
                    }});
  std::stop_source stop;
  Thread server("server", [&](const std::stop_token&) {
    EXPECT_THROW(there->accept(soon(), stop.get_token()), Error);  // nobody comes in
  });
  Hello stranger = hello_of(0);
  stranger.job = "another";
  expect_error([&] { here->connect(address, stranger, soon()); }, ErrorCode::kPermissionDenied,
               str_cat("[wire] connect: ", address.to_string(),
                       " refused: /job:worker/task:0 is of another job than /job:worker/task:1"));
  Hello old = hello_of(0);
  old.generation = 7;
  expect_error(
      [&] { here->connect(address, old, soon()); }, ErrorCode::kPermissionDenied,
      str_cat("[wire] connect: ", address.to_string(), " refused: generation 7 is of the past"));
  stop.request_stop();
  server.join();
  expect_error_containing(
      [&] {
        here->connect({.host = address.host, .port = 1}, hello_of(0),
                      Deadline::after(std::chrono::milliseconds(50)));
      },
      ErrorCode::kDeadlineExceeded, "the last error: ");
  Hello endless = hello_of(0);
  endless.purpose.assign(256, 'x');
  expect_error([&] { here->connect(address, endless, soon()); },
               "[wire] hello: got a purpose of 256 bytes; expected at most 255");
}

TEST_P(WireContractTest, AnotherTaskThanExpectedIsNotTakenForIt) {
  const auto wires = GetParam().make();
  auto here = wires->transport(0);
  auto there = wires->transport(1);
  const Address address = there->listen(wires->place(1), hello_of(1));
  std::stop_source stop;
  Thread server("server", [&] {
    try {
      there->accept(soon(), stop.get_token());  // some wires cannot see that it turns away
    } catch (const Error&) {
    }
  });
  expect_error([&] { here->connect(address, hello_of(0), soon(), {.peer = task_name(4)}); },
               ErrorCode::kUnauthenticated,
               str_cat("[wire] connect: /job:worker/task:4 at ", address.to_string(),
                       ": /job:worker/task:1 answered; expected /job:worker/task:4"));
  stop.request_stop();
}

// The one that listens comes later.
TEST_P(WireContractTest, ConnectTriesAgainUntilSomebodyListens) {
  const auto wires = GetParam().make();
  auto first = wires->transport(1);
  const Address address = first->listen(wires->place(1), hello_of(1));
  first.reset();
  auto here = wires->transport(0);
  std::shared_ptr<Connection> connection;
  Thread connector("connector", [&] {
    connection = here->connect(address, hello_of(0), soon(), {.peer = task_name(1)});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // some tries meet nobody
  auto there = wires->transport(1);
  there->listen(address, hello_of(1));
  const auto accepted = there->accept(soon());
  connector.join();
  EXPECT_EQ(accepted->peer(), hello_of(0));
  EXPECT_EQ(connection->peer(), hello_of(1));
}

TEST_P(WireContractTest, ListensOnceAndWhereItCan) {
  const auto wires = GetParam().make();
  auto first = wires->transport(0);
  expect_error([&] { first->accept(soon()); }, ErrorCode::kFailedPrecondition,
               "[wire] accept: this transport does not listen; call listen first");
  const Address address = first->listen(wires->place(0), hello_of(0));
  EXPECT_NE(address.port, 0);
  expect_error([&] { first->listen(wires->place(0), hello_of(0)); }, ErrorCode::kFailedPrecondition,
               str_cat("[wire] listen: got ", wires->place(0).to_string(),
                       ", but this transport listens already; use one transport a task"));
  auto second = wires->transport(0);
  expect_error_containing([&] { second->listen(address, hello_of(0)); }, ErrorCode::kAlreadyExists,
                          address.to_string());
  expect_error_containing([&] { second->listen({.host = "192.0.2.1", .port = 0}, hello_of(0)); },
                          ErrorCode::kInvalidArgument, "192.0.2.1:0");
}

}  // namespace
}  // namespace strata::wire
