// Workers and servers of one host: what they share, and that nothing else changes by it.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <latch>
#include <limits>

#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "ps/tables/mapped_memory.h"
#include "ps/tables/worker_memory.h"
#include "strata/core/json.h"
#include "strata/ps/row_table.h"
#include "support/expect_error.h"

namespace strata::ps {
namespace {

using test::PsCluster;

std::span<std::byte> bytes_of(const std::shared_ptr<std::byte>& block, size_t size) {
  return {block.get(), size};
}

TEST(WorkerMemoryTest, AServerThatMapsItSeesTheSameBytes) {
  WorkerMemory memory;
  const auto block = memory.take(10'000);
  const auto other = memory.take(10);
  const auto place = memory.find(bytes_of(block, 10'000).subspan(100, 50));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->offset, 100U);
  EXPECT_FALSE(memory.find(bytes_of(block, 10'001)));
  MappedMemory server;
  ASSERT_TRUE(server.map(place->segment, memory.introduce(place->segment)));
  const auto there = server.at(place->segment, place->offset, 50);
  EXPECT_EQ(there.get()[7], std::byte{0});
  block.get()[107] = std::byte{42};
  EXPECT_EQ(there.get()[7], std::byte{42});
  expect_error_containing([&] { server.at(place->segment, 9'990, 11); },
                          ErrorCode::kInvalidArgument, "bytes 9990 to 10001");
  expect_error_containing([&] { server.at(place->segment, ~uint64_t{0}, 2); },
                          ErrorCode::kInvalidArgument, "which has 10000");
  expect_error_containing([&] { server.at(memory.find(bytes_of(other, 1))->segment, 0, 1); },
                          ErrorCode::kInvalidArgument, "which this server has not mapped");
}

TEST(WorkerMemoryTest, AnotherHostsOrAnotherProcesssMemoryIsNotMapped) {
  WorkerMemory memory;
  const auto block = memory.take(100);
  const uint64_t segment = memory.find(bytes_of(block, 100))->segment;
  const Json good = Json::parse(memory.introduce(segment));
  for (const auto& [field, value] :
       {std::pair{"host", "boot 1 network 2:3 user 4"}, {"key", "0000"}}) {
    Json bad = good;
    bad.set(field, std::string(value));
    EXPECT_FALSE(MappedMemory().map(segment, bad.dump())) << field;
  }
  for (const int64_t file : {0, 10'000}) {
    Json bad = good;
    bad.set("file", file);
    EXPECT_FALSE(MappedMemory().map(segment, bad.dump()));
  }
  Json bad = good;
  bad.set("key", std::string(kMemoryKeyBytes, '0'));
  EXPECT_FALSE(MappedMemory().map(segment, bad.dump()));
  EXPECT_TRUE(MappedMemory().map(segment, good.dump()));
}

TEST(WorkerMemoryTest, WhoIsLateWritesElsewhereOnceItIsWithdrawn) {
  WorkerMemory memory;
  const auto block = memory.take(5000);
  const uint64_t segment = memory.find(bytes_of(block, 5000))->segment;
  MappedMemory server;
  ASSERT_TRUE(server.map(segment, memory.introduce(segment)));
  block.get()[4999] = std::byte{1};
  memory.withdraw({segment});
  EXPECT_EQ(memory.take_gone(), std::vector<uint64_t>{segment});
  server.at(segment, 4999, 1).get()[0] = std::byte{2};
  EXPECT_EQ(block.get()[4999], std::byte{1});
  const auto now = memory.find(bytes_of(block, 5000));
  ASSERT_TRUE(now);
  EXPECT_NE(now->segment, segment);
  MappedMemory again;
  ASSERT_TRUE(again.map(now->segment, memory.introduce(now->segment)));
  EXPECT_EQ(again.at(now->segment, 4999, 1).get()[0], std::byte{1});
}

TEST(WorkerMemoryTest, BlocksThatGoAreReported) {
  WorkerMemory memory;
  auto block = memory.take(1);
  const uint64_t segment = memory.find(bytes_of(block, 1))->segment;
  EXPECT_TRUE(memory.take_gone().empty());
  block.reset();
  EXPECT_EQ(memory.take_gone(), std::vector<uint64_t>{segment});
}

/// Values and slots after a few steps of each kind of call.
struct Trained {
  at::Tensor values;
  std::vector<at::Tensor> slots;
};

Trained train(bool shared, PushPrecision precision, const ConsistencyOptions& consistency) {
  constexpr int64_t kElements = 400'000;
  const int workers = consistency.workers;
  PsCluster cluster(2, workers);
  Trained trained;
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    const auto make = [&] {
      return shared ? client.make_buffer(kElements, at::kDouble)
                    : at::empty({kElements}, at::kDouble);
    };
    at::Generator generator = at::detail::createCPUGenerator(3 + static_cast<uint64_t>(worker));
    at::Tensor values = make();
    at::Tensor gradients = make();
    values.normal_(0, 1, generator);
    const auto table = client.create_flat(
        {.name = "weights",
         .dtype = at::kDouble,
         .rule = tensor::AdamRule{},
         .consistency = consistency,
         .parts = {{0, 100, 1}, {100, 150'000, 0}, {150'000, 399'000, 1}, {399'000, kElements, 0}},
         .no_weight_decay = {{50, 200, 0}, {398'000, 399'500, 0}}},
        values, worker == 0);
    for (int step = 0; step < 4; ++step) {
      gradients.normal_(0, 1, generator);
      const PushOptions options = {
          .learning_rate = 0.1, .weight = 2, .weight_decay = 0.01, .precision = precision};
      if (step == 2) {
        table->push(gradients, options);
        table->pull(values);
      } else {
        table->push_pull(gradients, values, options);
      }
    }
    if (worker == 0) trained = {values.clone(), {table->read_slot(0), table->read_slot(1)}};
  }));
  return trained;
}

TEST(SharedMemoryTest, TheBitsAreThoseOfTheWire) {
  for (const PushPrecision precision : {PushPrecision::kFull, PushPrecision::kBFloat16}) {
    for (const int workers : {1, 3}) {
      const ConsistencyOptions consistency = {
          .kind = workers == 1 ? Consistency::kAsynchronous : Consistency::kSynchronous,
          .workers = workers};
      const Trained wire = train(false, precision, consistency);
      const Trained memory = train(true, precision, consistency);
      EXPECT_TRUE(memory.values.equal(wire.values)) << workers;
      for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(memory.slots[i].equal(wire.slots[i])) << workers;
    }
  }
}

// The link breaks at the first large message.
TEST(SharedMemoryTest, NothingButRequestsTravels) {
  constexpr int64_t kElements = 1'000'000;
  for (const bool shared : {true, false}) {
    PsCluster cluster(1, 1);
    const std::vector<Status> outcomes = cluster.run([&](Client& client, int) {
      at::Tensor values = client.make_buffer(kElements);
      at::Tensor gradients = client.make_buffer(kElements).fill_(1);
      const auto table = client.create_flat(
          {.name = "weights", .parts = cut_evenly(kElements, 4, 1)}, values, true);
      const auto rows = client.create_rows({.name = "users", .rows = 100'000, .width = 16});
      cluster.network().cut_after("worker-0", "ps-0", 100'000);
      cluster.network().cut_after("ps-0", "worker-0", 100'000);
      if (!shared) gradients = gradients.clone();
      for (int step = 0; step < 3; ++step) {
        table->push_pull(gradients, values, {.learning_rate = 1});
        const PulledRows pulled = rows->pull(at::randint(100'000, {20'000}, at::kLong));
        rows->push(pulled, at::full(pulled.values.sizes(), 1.0F), {});
      }
      EXPECT_TRUE(values.equal(at::full({kElements}, -3.0F)));
    });
    EXPECT_EQ(outcomes[0].ok(), shared) << outcomes[0].message();
  }
}

TEST(SharedMemoryTest, APushThatIsNotFiniteIsRefusedAndChangesNothing) {
  PsCluster cluster(2, 1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    at::Tensor values = client.make_buffer(100);
    at::Tensor gradients = client.make_buffer(100);
    const auto table = client.create_flat(
        {.name = "weights", .parts = {{0, 10, 1}, {10, 60, 0}, {60, 100, 1}}}, values, true);
    gradients[77] = std::numeric_limits<float>::quiet_NaN();
    expect_error_containing([&] { table->push_pull(gradients, values, {}); },
                            ErrorCode::kInvalidArgument,
                            "not finite from /job:worker/task:0, element 77;");
    gradients[77] = 0;
    table->push_pull(gradients.fill_(1), values, {.learning_rate = 1});
    EXPECT_TRUE(values.slice(0, 60).equal(at::full({40}, -1.0F)));
    EXPECT_EQ(table->counters()[1].rejected, 1);
  }));
}

TEST(SharedMemoryTest, TensorsOutliveTheClient) {
  PsCluster cluster(1, 1);
  at::Tensor values;
  PulledRows pulled;
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    values = client.make_buffer(1000);
    client.create_flat({.name = "weights", .parts = cut_evenly(1000, 4, 1)}, values.fill_(2), true);
    pulled = client.create_rows({.name = "users", .rows = 10, .width = 4, .initializer = {.a = 3}})
                 ->pull(at::randint(10, {5}, at::kLong));
  }));
  EXPECT_TRUE(values.equal(at::full({1000}, 2.0F)));
  EXPECT_TRUE(pulled.gather().equal(at::full({5, 4}, 3.0F)));
}

// The server does not know that the worker has given up, and answers when the step is made.
TEST(SharedMemoryTest, AnAnswerThatNobodyWaitsForAnyMoreDoesNotReachTheTensors) {
  PsCluster cluster(1, 2, {.timeout = std::chrono::milliseconds(300)});
  std::latch given_up(1);
  std::latch answered(1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    at::Tensor values = client.make_buffer(1000);
    at::Tensor gradients = client.make_buffer(1000).fill_(1);
    const auto table =
        client.create_flat({.name = "weights",
                            .consistency = {.kind = Consistency::kSynchronous, .workers = 2},
                            .parts = cut_evenly(1000, 4, 1)},
                           values, worker == 0);
    if (worker == 0) {
      expect_error_containing([&] { table->push_pull(gradients, values, {.learning_rate = 1}); },
                              ErrorCode::kDeadlineExceeded, "no answer in time");
      values.fill_(7);
      gradients.fill_(100);
      given_up.count_down();
      answered.wait();
      EXPECT_TRUE(values.equal(at::full({1000}, 7.0F)));
    } else {
      given_up.wait();
      table->push_pull(gradients, values, {.learning_rate = 1});
      EXPECT_TRUE(values.equal(at::full({1000}, -2.0F)));
      answered.count_down();
    }
  }));
}

}  // namespace
}  // namespace strata::ps
