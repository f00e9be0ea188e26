// A thread waits as layers would compute, another adds the buckets that are ready.
#include <ATen/core/Tensor.h>

#include <thread>

#include "core/mutex.h"
#include "core/thread.h"
#include "predicted_step/member.h"
#include "simulate/all_reduce_step.h"
#include "strata/core/error.h"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;

class AllReduceWorker final : public StepRunner {
 public:
  AllReduceWorker(const PredictedCase& predicted, Member& member)
      : scenario_(predicted.scenario()), communicator_(member.communicator()) {
    scenario_.links = member.links();
    buckets_ = simulate::plan_buckets(scenario_, /*grouped=*/false);
    for (const simulate::Bucket& bucket : buckets_) {
      memory_.push_back(communicator_.buffer(bucket.elements, at::kFloat));
    }
  }

  double step() override {
    communicator_.barrier();
    {
      const MutexLock lock(mutex_);
      ready_ = 0;
    }
    const auto begin = Clock::now();
    Thread computes("computes", [&] { compute(begin); });
    for (size_t i = 0; i < buckets_.size(); ++i) {
      wait_for_bucket(i);
      communicator_.all_reduce_(memory_[i], ReduceOp::kSum, {.id = static_cast<uint32_t>(i)});
    }
    computes.join();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  void wait_for_bucket(size_t index) {
    MutexLock lock(mutex_);
    const auto end = Clock::now() + std::chrono::minutes(1);
    while (ready_ <= index) {
      STRATA_CHECK(changed_.wait_until(lock, end) == std::cv_status::no_timeout, kDeadlineExceeded,
                   "[predicted_step] bucket ", index, " was not ready after a minute");
    }
  }

  void compute(Clock::time_point begin) {
    const std::vector<simulate::Layer>& layers = scenario_.network.layers;
    double time = scenario_.network.forward_seconds();
    size_t next = 0;
    for (size_t layer = layers.size(); layer-- > 0;) {
      time += layers[layer].backward_seconds;
      while (next < buckets_.size() && buckets_[next].ready_after == layer) {
        wait_until(begin, time);
        ++next;
        const MutexLock lock(mutex_);
        ready_ = next;
        changed_.notify_all();
      }
    }
    wait_until(begin, time);
  }
  static void wait_until(Clock::time_point begin, double seconds) {
    // Time is what is simulated here: this is the computing.
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(seconds)));
  }

  simulate::Scenario scenario_;
  collective::WireCommunicator& communicator_;
  std::vector<simulate::Bucket> buckets_;
  std::vector<at::Tensor> memory_;
  Mutex mutex_;
  ConditionVariable changed_;
  size_t ready_ STRATA_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<StepRunner> make_all_reduce_worker(const PredictedCase& predicted, Member& member) {
  return std::make_unique<AllReduceWorker>(predicted, member);
}

}  // namespace strata::bench
