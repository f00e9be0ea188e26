// Memory of replays: small steps allocate nothing, results are the caller's, and views follow what they
// are of.
#include <torch/torch.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "strata/graph/function.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/replicated.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "support/replicas.h"
#include "support/tensor_memory.h"

namespace {

thread_local bool counts_news = false;
thread_local int64_t news = 0;

void* counted_new(size_t bytes) {
  if (counts_news) ++news;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Of this program: every operator new of the libraries comes here.
void* operator new(size_t bytes) { return counted_new(bytes); }
void* operator new[](size_t bytes) { return counted_new(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace strata {
namespace {

using at::Tensor;
using test::tensor_memory_of;

/// How often `call` calls operator new on this thread.
template <typename Call>
int64_t news_of(const Call& call) {
  news = 0;
  counts_news = true;
  call();
  counts_news = false;
  return news;
}

struct Training {
  explicit Training(int replicas)
      : strategy({.devices = cpus(replicas), .seed = 5}),
        net(strategy.replicate([] {
          torch::manual_seed(5);
          return torch::nn::Sequential(torch::nn::Linear(784, 128), torch::nn::ReLU(),
                                       torch::nn::Linear(128, 128), torch::nn::ReLU(),
                                       torch::nn::Linear(128, 10));
        })),
        adam(net.variables(), {.learning_rate = 1e-3}) {}

  auto step() {
    return [this](const Tensor& x, const Tensor& y) {
      const Tensor losses =
          losses::sparse_categorical_crossentropy(y, net->forward(x), {.from_logits = true});
      const Tensor loss = compute_average_loss(losses, strategy.num_replicas_in_sync() * 8);
      adam.minimize(loss);
      return loss;
    };
  }

  MirroredStrategy strategy;
  Replicated<torch::nn::SequentialImpl> net;
  optimizers::Adam adam;
};

TEST(ReplayMemoryTest, AStepOfASmallNetworkAllocatesNothing) {
  for (const int replicas : {1, 2}) {
    Training training(replicas);
    const auto step = function(training.step());
    const Tensor x = torch::randn({8, 784}), y = torch::randint(0, 10, {8});
    // Losses are held until the next one is there, as a loop's are.
    std::vector<Tensor> losses(static_cast<size_t>(replicas));
    const auto call = [&](ReplicaContext* context) {
      losses[static_cast<size_t>(context->local_replica())] = step(x, y);
    };
    for (int i = 0; i < 6; ++i) training.strategy.run([&] { call(get_replica_context()); });
    std::vector<int64_t> by_operator_new(losses.size()), by_tensors(losses.size());
    training.strategy.run([&] {
      ReplicaContext* const context = get_replica_context();
      by_operator_new[static_cast<size_t>(context->local_replica())] =
          news_of([&] { call(context); });
    });
    training.strategy.run([&] {
      ReplicaContext* const context = get_replica_context();
      by_tensors[static_cast<size_t>(context->local_replica())] =
          tensor_memory_of([&] { call(context); }).calls;
    });
    for (int r = 0; r < replicas; ++r) {
      EXPECT_EQ(by_operator_new[static_cast<size_t>(r)], 0) << replicas << ", replica " << r;
      EXPECT_EQ(by_tensors[static_cast<size_t>(r)], 0) << replicas << ", replica " << r;
    }
    EXPECT_EQ(training.adam.iterations(), 8);
  }
}

TEST(ReplayMemoryTest, CountsWhatIsAllocated) {
  EXPECT_GT(news_of([] { torch::ones({3}); }), 0);
  EXPECT_EQ(tensor_memory_of([] { torch::ones({3}); }).calls, 1);
}

TEST(ReplayMemoryTest, ResultsThatAreHeldStayAsTheyAre) {
  Training traced(1), eager(1);
  const auto step = function(traced.step());
  const auto as_written = eager.step();
  std::vector<Tensor> held, expected;
  for (int i = 0; i < 30; ++i) {
    const Tensor x = torch::randn({8, 784}), y = torch::randint(0, 10, {8});
    const auto loss = traced.strategy.run(step, x, y).get(0);
    expected.push_back(eager.strategy.run(as_written, x, y).get(0).detach().clone());
    if (i % 3 == 0) {
      held.push_back(loss);
    } else if (i % 3 == 1) {
      held.push_back(loss.view({1}));  // a part of it
    } else {
      held.push_back(loss.clone());
      loss.fill_(-1);  // the caller's own
    }
  }
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(held[i].reshape({}).equal(expected[i])) << i;
  }
}

TEST(ReplayMemoryTest, ResultsThatWereChangedAreNotUsedAgain) {
  Training traced(1), eager(1);
  const auto step = function(traced.step());
  const auto as_written = eager.step();
  for (int i = 0; i < 12; ++i) {
    const Tensor x = torch::randn({8, 784}), y = torch::randint(0, 10, {8});
    Tensor loss = traced.strategy.run(step, x, y).get(0);
    const Tensor expected = eager.strategy.run(as_written, x, y).get(0).detach();
    ASSERT_FALSE(loss.requires_grad());
    ASSERT_EQ(loss.dim(), 0);
    ASSERT_TRUE(loss.equal(expected)) << i;
    if (i % 2 == 0) loss.requires_grad_();
    if (i % 2 == 1) loss.resize_({2, 2});
  }
}

TEST(ReplayMemoryTest, ViewsFollowInputsAndWeights) {
  Tensor weight = torch::randn({4, 6});
  const auto apply = [&](const Tensor& x) {
    const Tensor rows = x.view({2, 3, 6}).select(1, 1).narrow(1, 1, 4);
    return std::vector<Tensor>{rows.mm(weight.narrow(1, 0, 5)), rows.t(), x.view({-1})};
  };
  const auto traced = function(apply);
  const Tensor pool = torch::randn({10, 6, 6});
  for (int i = 0; i < 10; ++i) {
    if (i == 5) weight.set_data(torch::randn({4, 6}));                  // other memory
    if (i == 7) weight.set_data(torch::randn({5, 6}).narrow(0, 1, 4));  // that begins later
    const Tensor x = pool[i];
    const auto results = traced(x);
    const auto expected = apply(x);
    for (size_t k = 0; k < results.size(); ++k) EXPECT_TRUE(results[k].equal(expected[k])) << i;
    EXPECT_EQ(results[2].const_data_ptr(), x.const_data_ptr());
  }
}

TEST(ReplayMemoryTest, AnInputIsFreeAfterTheCall) {
  const auto step = function([](const Tensor& x) { return x.view({-1}).narrow(0, 1, 2) + 1; });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = torch::ones({2, 3});
    const Tensor y = step(x);
    EXPECT_EQ(x.storage().use_count(), 1U);
    EXPECT_EQ(x.use_count(), 1U);
  }
}

/// What a function needs beside its replay while it is recorded.
TEST(ReplayMemoryTest, RecordingTakesNoMemoryForActivations) {
  torch::set_num_threads(1);
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)),
      torch::nn::BatchNorm2d(16), torch::nn::ReLU(),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 16, 3).stride(2)), torch::nn::BatchNorm2d(16),
      torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::AdaptiveAvgPool2d(1),
      torch::nn::Flatten(), torch::nn::Linear(16, 10));
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto step = function([&](const Tensor& x) {
    sgd.zero_grad();
    const Tensor loss = net->forward(x).square().mean();
    loss.backward();
    sgd.step();
    return loss;
  });
  const Tensor x = torch::randn({8, 3, 64, 64});
  const int64_t activations = int64_t{8} * 16 * 64 * 64 * 4;
  step(x);
  const int64_t twice = tensor_memory_of([&] { step(x); }).allocated;  // recorded twice, and run
  const int64_t once = tensor_memory_of([&] { step(x); }).allocated;
  const int64_t replay = tensor_memory_of([&] { step(x); }).allocated;
  EXPECT_GT(replay, 2 * activations);
  EXPECT_LT(once - replay, activations / 20);
  EXPECT_LT(twice - replay, activations / 20);
}

}  // namespace
}  // namespace strata
