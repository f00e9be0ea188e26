// Sums over cards: the bits of reduce_in_order, by every algorithm, for every number of replicas.

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <c10/core/Event.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "gpu/emulated/device.h"
#include "gpu/emulated/order.h"
#include "tensor/stream_event.h"

namespace strata::collective {
namespace {

CardCommunicator make(const std::vector<int>& hosts) {
  CardCommunicator::Options options{.hosts = hosts, .transport = std::make_shared<CopyTransport>()};
  for (size_t replica = 0; replica < hosts.size(); ++replica) {
    options.replicas.push_back(static_cast<int>(replica));
    options.devices.emplace_back(c10::kCUDA,
                                 static_cast<c10::DeviceIndex>(static_cast<int>(replica) %
                                                               test::emulated_gpu::num_devices()));
  }
  return CardCommunicator(std::move(options));
}

at::Tensor random(int64_t size, at::ScalarType dtype) {
  if (!c10::isFloatingType(dtype)) return at::randint(-50, 50, {size}, dtype);
  return at::randn({size}, at::kDouble).to(dtype);
}

/// Streams `first` wait for what is enqueued on `then`.
void order(const std::vector<c10::Stream>& first, const std::vector<c10::Stream>& then) {
  for (size_t i = 0; i < first.size(); ++i) {
    c10::Event event(c10::kCUDA);
    event.record(first[i]);
    event.block(then[i]);
  }
}

void expect_sums(CardCommunicator& cards, int64_t size, at::ScalarType dtype, ReduceOp op) {
  std::vector<at::Tensor> here;
  std::vector<at::Tensor> values;
  std::vector<c10::Stream> mains;
  for (const c10::Device& device : cards.devices()) {
    here.push_back(random(size, dtype));
    values.push_back(here.back().to(device));
    mains.push_back(tensor::current_stream(device));
  }
  order(mains, cards.streams());
  const auto before = test::emulated_gpu::counts();
  cards.all_reduce(values, op, "test");
  EXPECT_EQ(test::emulated_gpu::counts().host_waits, before.host_waits);
  order(cards.streams(), mains);
  const at::Tensor expected = reduce_in_order(here, op);
  for (const at::Tensor& value : values) EXPECT_TRUE(at::equal(value.cpu(), expected));
}

TEST(CardCommunicatorTest, HasTheBitsOfTheFixedOrder) {
  std::mt19937 random(5);
  for (int replicas = 1; replicas <= 9; ++replicas) {
    std::vector<int> hosts;
    for (int r = 0; r < replicas; ++r) hosts.push_back(static_cast<int>(random() % 3));
    for (const std::vector<int>& placement : {std::vector<int>(hosts.size(), 0), hosts}) {
      CardCommunicator cards = make(placement);
      for (const int64_t size : {1, 7, 1000, 70001}) {
        SCOPED_TRACE(str_cat(replicas, " replicas, ", size, " elements"));
        expect_sums(cards, size, at::kFloat, ReduceOp::kSum);
      }
    }
  }
}

/// Each replica's part of the sum, and then all parts.
void expect_parts(CardCommunicator& cards, int64_t part, at::ScalarType dtype, ReduceOp op) {
  const int64_t size = part * cards.num_replicas();
  std::vector<at::Tensor> here;
  std::vector<at::Tensor> values;
  std::vector<c10::Stream> mains;
  for (const c10::Device& device : cards.devices()) {
    here.push_back(random(size, dtype));
    values.push_back(here.back().to(device));
    mains.push_back(tensor::current_stream(device));
  }
  order(mains, cards.streams());
  const auto before = test::emulated_gpu::counts();
  cards.reduce_scatter(values, op, "test");
  EXPECT_EQ(test::emulated_gpu::counts().host_waits, before.host_waits);
  order(cards.streams(), mains);
  const at::Tensor expected = reduce_in_order(here, op);
  for (size_t r = 0; r < values.size(); ++r) {
    const auto begin = static_cast<int64_t>(r) * part;
    EXPECT_TRUE(at::equal(values[r].cpu().narrow(0, begin, part), expected.narrow(0, begin, part)));
  }
  order(mains, cards.streams());
  cards.all_gather_parts(values, "test");
  order(cards.streams(), mains);
  for (const at::Tensor& value : values) EXPECT_TRUE(at::equal(value.cpu(), expected));
}

TEST(CardCommunicatorTest, PartsHaveTheBitsOfTheFixedOrder) {
  std::mt19937 random(6);
  for (int replicas = 1; replicas <= 9; ++replicas) {
    std::vector<int> hosts;
    for (int r = 0; r < replicas; ++r) hosts.push_back(static_cast<int>(random() % 3));
    for (const std::vector<int>& placement : {std::vector<int>(hosts.size(), 0), hosts}) {
      CardCommunicator cards = make(placement);
      for (const int64_t part : {1, 16, 1000, 20001}) {
        SCOPED_TRACE(str_cat(replicas, " replicas, parts of ", part, " elements"));
        expect_parts(cards, part, at::kFloat, ReduceOp::kSum);
      }
    }
  }
  CardCommunicator cards = make({0, 0, 0, 1, 1});
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16, at::kLong}) {
    expect_parts(cards, 601, dtype, ReduceOp::kMax);
  }
}

TEST(CardCommunicatorTest, PartsAreEqual) {
  CardCommunicator cards = make({0, 0});
  const std::vector<at::Tensor> values = {at::ones({3}), at::ones({3})};
  EXPECT_THROW(cards.reduce_scatter(values, ReduceOp::kSum, "test"), Error);
  EXPECT_THROW(cards.all_gather_parts(values, "test"), Error);
}

TEST(CardCommunicatorTest, EveryDtypeAndOperation) {
  CardCommunicator cards = make({0, 0, 0, 1, 1});
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax}) {
      if (op == ReduceOp::kMean && !c10::isFloatingType(dtype)) continue;
      SCOPED_TRACE(str_cat(dtype, " ", reduce_op_name(op)));
      expect_sums(cards, 3001, dtype, op);
    }
  }
}

TEST(CardCommunicatorTest, GathersByReplica) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    CardCommunicator cards = make(std::vector<int>(static_cast<size_t>(replicas), 0));
    CardCommunicator& values = cards.for_values();
    EXPECT_EQ(&values, &cards.for_values());
    std::vector<at::Tensor> here, there, results;
    std::vector<c10::Stream> mains;
    for (const c10::Device& device : values.devices()) {
      here.push_back(at::randn({33}, at::kDouble));
      there.push_back(here.back().to(device));
      results.push_back(at::empty({replicas, 33}, there.back().options()));
      mains.push_back(tensor::current_stream(device));
    }
    order(mains, values.streams());
    const auto before = test::emulated_gpu::counts();
    values.all_gather(there, results, "test");
    EXPECT_EQ(test::emulated_gpu::counts().host_waits, before.host_waits);
    order(values.streams(), mains);
    for (const at::Tensor& result : results) EXPECT_TRUE(at::equal(result.cpu(), at::stack(here)));
  }
}

TEST(CardCommunicatorTest, ValuesHaveStreamsOfTheirOwn) {
  CardCommunicator cards = make({0, 0});
  for (int card = 0; card < 2; ++card) {
    const auto at = static_cast<size_t>(card);
    EXPECT_NE(cards.for_values().streams()[at], cards.streams()[at]);
  }
}

TEST(CardCommunicatorTest, RoundsMatch) {
  // What one rank sends in a round, its peer receives in it: nothing waits for another round.
  const Algorithms algorithms = Algorithms::standard();
  for (int replicas = 2; replicas <= 9; ++replicas) {
    for (const int on_a_host : {1, 2, 3}) {
      Request request;
      for (int r = 0; r < replicas; ++r) {
        request.placement.rank_of_replica.push_back(r);
        request.placement.host_of_rank.push_back(r / on_a_host);
      }
      for (const Algorithm* algorithm : algorithms.offered(request)) {
        for (const int segments : {1, 4}) {
          const Schedule schedule = segmented(algorithm->make(request), segments);
          SCOPED_TRACE(str_cat(schedule.name, ", ", replicas, " replicas"));
          std::map<std::tuple<size_t, int, int>, int> open;  // round, from, to
          for (int rank = 0; rank < replicas; ++rank) {
            const auto rounds = card_rounds(schedule, rank);
            for (size_t round = 0; round < rounds.size(); ++round) {
              for (const Step& send : rounds[round].sends) ++open[{round, rank, send.peer}];
              for (const Step& each : rounds[round].receives) --open[{round, each.peer, rank}];
            }
          }
          for (const auto& [place, count] : open) EXPECT_EQ(count, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::collective
