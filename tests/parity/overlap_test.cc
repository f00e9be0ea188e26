// Gradients travel while backward still runs.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/autograd_node.h"
#include "parity/models.h"
#include "strata/runtime/span_observer.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "support/replicas.h"
#include "support/thread_cluster.h"

namespace strata::parity {
namespace {

using std::chrono::steady_clock;

/// Keeps what it is told.
class Spans final : public SpanObserver {
 public:
  struct Each {
    std::string name;
    steady_clock::time_point began;
  };

  void span_ended(std::string_view name, steady_clock::time_point began) override {
    const std::lock_guard lock(mutex_);
    ended_.push_back({std::string(name), began});
    changed_.notify_all();
  }

  /// False if nothing whose name has `part` in it ends in time.
  bool wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return find(part) < size(); });
  }

  /// In the order of their ends; it starts anew.
  std::vector<Each> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(ended_, {});
  }

 private:
  size_t size() const { return ended_.size(); }
  size_t find(const std::string& part) const {
    const auto found = std::ranges::find_if(
        ended_, [&](const Each& each) { return each.name.find(part) != std::string::npos; });
    return static_cast<size_t>(found - ended_.begin());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Each> ended_;
};

/// A step of backward that takes as long as `work`.
struct Slow final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    work();
    return std::move(gradients);
  }
  std::function<void()> work;
};

at::Tensor slow_backward(const at::Tensor& x, std::function<void()> work) {
  const auto node = kernels::make_node<Slow>();
  node->work = std::move(work);
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  at::Tensor same = x.detach();
  torch::autograd::set_history(same, node);
  return same;
}

struct TwoLayers : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(3, 4));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(4, 2));
};

/// The spans of one worker's second step. In it backward waits between the two layers until a
/// bucket is with the others, if `waits`.
std::vector<Spans::Each> second_step(Strategy& strategy, bool waits) {
  const auto spans = std::make_shared<Spans>();
  const auto net = strategy.replicate([] { return std::make_shared<TwoLayers>(); });
  optimizers::SGD sgd(net.variables(), {});
  for (int step = 0; step < 2; ++step) {
    spans->take();
    strategy.run([&] {
      const SpanObserverScope scope(spans);
      const at::Tensor hidden = slow_backward(net->first(at::ones({1, 3})), [&] {
        // In the first step it is not known yet who has what.
        if (waits && step == 1) {
          EXPECT_TRUE(spans->wait_for("bucket 1 of 4"));
        }
      });
      sgd.minimize(net->second(hidden).sum());
    });
  }
  return spans->take();
}

std::vector<std::string> names(const std::vector<Spans::Each>& spans) {
  std::vector<std::string> result;
  for (const auto& each : spans) result.push_back(each.name);
  return result;
}

/// What `check` gets is each of two workers' spans.
void two_workers(bool overlap, const std::function<void(const std::vector<Spans::Each>&)>& check) {
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 2}}));
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    MultiWorkerMirroredStrategy strategy(task.taking_part(MultiWorkerMirroredOptions{
        .devices = cpus(1), .communication_options = {.bytes_per_pack = 1, .overlap = overlap}}));
    check(second_step(strategy, overlap));
  }));
}

TEST(OverlapTest, ABucketIsThereBeforeBackwardEnds) {
  two_workers(true, [](const std::vector<Spans::Each>& spans) {
    ASSERT_EQ(spans.size(), 5U);
    const auto backward = std::ranges::find(spans, std::string("backward"), &Spans::Each::name);
    ASSERT_NE(backward, spans.end());
    EXPECT_EQ(spans[0].name, "gradients of sgd, bucket 1 of 4");
    EXPECT_NE(backward, spans.begin());
    EXPECT_GT(spans[0].began, backward->began);
  });
}

TEST(OverlapTest, WithoutItBucketsTravelBehindBackward) {
  two_workers(false, [](const std::vector<Spans::Each>& spans) {
    EXPECT_EQ(names(spans),
              (std::vector<std::string>{
                  "backward", "gradients of sgd, bucket 1 of 4", "gradients of sgd, bucket 2 of 4",
                  "gradients of sgd, bucket 3 of 4", "gradients of sgd, bucket 4 of 4"}));
  });
}

TEST(SpanObserverTest, AScopeInsideAnotherCounts) {
  const auto outer = std::make_shared<Spans>();
  const auto inner = std::make_shared<Spans>();
  MirroredStrategy strategy({.devices = cpus(1)});
  const auto net = strategy.replicate([] { return std::make_shared<TwoLayers>(); });
  optimizers::SGD sgd(net.variables(), {});
  strategy.run([&] {
    const auto step = [&] { sgd.minimize(net->second(net->first(at::ones({1, 3}))).sum()); };
    const SpanObserverScope scope(outer);
    {
      const SpanObserverScope other(inner);
      step();
      const SpanObserverScope nobody(nullptr);
      step();
    }
    step();
    step();
  });
  EXPECT_EQ(names(inner->take()), std::vector<std::string>{"backward"});
  EXPECT_EQ(names(outer->take()), (std::vector<std::string>{"backward", "backward"}));
}

}  // namespace
}  // namespace strata::parity
