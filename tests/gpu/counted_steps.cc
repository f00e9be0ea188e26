#include "multi_worker/counted_steps.h"

#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "gpu/stops.h"
#include "parity/models.h"
#include "strata/core/error.h"
#include "strata/keras/callback.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/optim/metrics.h"

namespace strata::test {
namespace {

using emulated_gpu::Stops;
using emulated_gpu::stops_so_far;

constexpr int kFew = 10;
constexpr int kMany = 60;
constexpr int64_t kRows = 16;
constexpr int64_t kReplicas = 2;  // of this process
constexpr int64_t kFields = 3;    // of a batch with weights

/// @param steps  Trains for as many steps.
void compare(const std::string& name, const std::function<void(int)>& steps,
             bool scales_loss = false) {
  const auto stops_of = [&](int count) {
    const Stops before = stops_so_far(scales_loss);
    steps(count);
    return stops_so_far(scales_loss) - before;
  };
  const Stops first = stops_of(kMany);
  Stops few = stops_of(kFew);
  Stops many = stops_of(kMany);
  const int64_t pinned = first.pinned_blocks + few.pinned_blocks + many.pinned_blocks;
  std::ostringstream text;
  text << "counted " << name << ": in " << kFew << " steps " << few << "; in " << kMany << ' '
       << many;
  std::printf("%s\n", text.str().c_str());
  std::fflush(stdout);
  const int64_t most_pinned = emulated_gpu::most_pinned_blocks(kReplicas, kFields);
  few.pinned_blocks = many.pinned_blocks = 0;
  STRATA_CHECK(few == many && few.bytes_reserved == 0 && pinned <= most_pinned, kInternal,
               "[trainer] ", text.str(), "; ", pinned, " pinned blocks in all; expected equal ",
               "numbers, no new bytes, and ", most_pinned, " pinned blocks at most");
}

data::Dataset rows() {
  return parity::as_dataset(parity::make_batches(parity::Kind::kMlp, at::kFloat, kMany, {kRows}));
}

struct FitCase {
  std::string name;
  optimizers::AdamOptions adam = {};
  bool synchronized = true;  // BatchNormalization
  bool mixed = false;        // float16, with a loss scale that finds its size
  bool callback = false;     // which does not look at the logs
  bool weights = false;      // of samples
};

struct Onlooker : callbacks::Callback {};

void count_fit(MultiWorkerMirroredStrategy& strategy, const FitCase& fit) {
  keras::set_dtype_policy(fit.mixed ? "mixed_float16" : "float32");
  const keras::Model model = strategy.scope([&] {
    keras::Sequential net(
        keras::Input({6}),
        {layers::Dense(9, "relu"), layers::BatchNormalization({.synchronized = fit.synchronized}),
         layers::Dropout(0.1), layers::Dense(4)});
    net.compile({.optimizer = optimizers::Adam(fit.adam),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()}});
    return net;
  });
  data::Dataset data = rows();
  if (fit.weights) {
    data = data.map([](const data::Example& batch) {
      return data::Example{batch.x(), batch.y(), batch.x().select(1, 0).abs()};
    });
  }
  std::vector<callbacks::CallbackRef> callbacks;
  if (fit.callback) callbacks.emplace_back(Onlooker());
  const auto steps = [&](int count) {
    model.fit(data.take(count), {.epochs = 1, .callbacks = callbacks, .verbose = 0});
  };
  compare(fit.name, steps, fit.mixed);
  keras::set_dtype_policy("float32");
}

class NormedNet : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x) { return last_(norm_(at::relu(first_(x)))); }

 private:
  torch::nn::Linear first_ = register_module("first", torch::nn::Linear(6, 9));
  SyncBatchNorm norm_ = register_module("norm", SyncBatchNorm(SyncBatchNormOptions(9)));
  torch::nn::Linear last_ = register_module("last", torch::nn::Linear(9, 4));
};

void count_loop(MultiWorkerMirroredStrategy& strategy) {
  const auto net = strategy.replicate([] { return std::make_shared<NormedNet>(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.05, .momentum = 0.9, .clipnorm = 1.0});
  metrics::Mean mean_loss("loss");
  strategy.scope([&] { mean_loss.build(); });
  const data::Dataset data = rows();
  compare("loop", [&](int steps) {
    for (const auto& batch : strategy.distribute(data.take(steps))) {
      strategy.run(
          [&](const data::Example& part) {
            const at::Tensor loss =
                compute_average_loss(losses::sparse_categorical_crossentropy(
                                         part.y(), net->forward(part.x()), {.from_logits = true}),
                                     {.global_batch_size = kRows});
            sgd.minimize(loss);
            mean_loss.update(get_replica_context()->all_reduce(ReduceOp::kSum, loss.detach()));
          },
          batch);
    }
    (void)mean_loss.result();
  });
}

}  // namespace

void count_steps(MultiWorkerMirroredStrategy& strategy) {
  const FitCase cases[] = {{"fit"},
                           {"fit, BatchNormalization of each replica", {}, false},
                           {"fit, clipped by norm", {.clipnorm = 0.5}},
                           {"fit, clipped by the global norm", {.global_clipnorm = 0.5}},
                           {"fit, mixed_float16", {}, true, true},
                           {"fit, with a callback", {}, true, false, true},
                           {"fit, with weights of samples", {}, true, false, false, true}};
  for (const FitCase& each : cases) count_fit(strategy, each);
  count_loop(strategy);
}

}  // namespace strata::test
