// Errors in the data and the callbacks of one worker end `fit` on all of them, say whose they are,
// and leave a model that can be fitted again. Here the processes are threads.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "multi_worker/spread.h"
#include "strata/keras/callback.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/tensor/fingerprint.h"

namespace strata {
namespace {

using data::Dataset;
using data::Example;

constexpr int64_t kClasses = 4;

Dataset rows(const at::Tensor& labels) {
  return Dataset::from_tensor_slices({at::ones({labels.size(0), 3}), labels});
}

/// `disturb` fits badly; then all fit well. @return what each worker's `disturb` said.
std::array<std::string, 2> errors_of(
    const std::function<void(const keras::Model& model, int worker)>& disturb) {
  std::array<std::string, 2> errors, digests;
  test::run_well({1, 1}, [&](Strategy& strategy, int worker) {
    const keras::Model model = strategy.scope([] {
      return keras::Sequential(
          keras::Input({3}),
          {layers::Dense(kClasses, {.kernel_initializer = initializers::HeNormal({.seed = 3}),
                                    .name = "dense"})});
    });
    model.compile(
        {.optimizer = "sgd", .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    const auto here = static_cast<size_t>(worker);
    try {
      disturb(model, worker);
    } catch (const std::exception& error) {
      errors[here] = error.what();
    }
    model.fit(rows(at::zeros({16}, at::kLong)).batch(8), {.verbose = 0});
    std::vector<at::Tensor> weights;
    for (const auto& weight : model->weights()) weights.push_back(weight.variable.value().detach());
    digests[here] = tensor::fingerprint(weights);
  });
  EXPECT_EQ(digests[0], digests[1]);
  return errors;
}

TEST(UserErrorsTest, ABadLabelIsNamedByItsWorkerAndRow) {
  at::Tensor labels = at::zeros({16}, at::kLong);
  labels[13] = kClasses;
  for (const bool evaluate : {false, true}) {
    const auto errors = errors_of([&](const keras::Model& model, int) {
      const Dataset batches = rows(labels).batch(8);
      evaluate ? (void)model.evaluate(batches, {.verbose = 0})
               : (void)model.fit(batches, {.verbose = 0});
    });
    EXPECT_NE(errors[0].find("got label 4 in row"), std::string::npos) << errors[0];
    EXPECT_NE(errors[1].find("got label 4 in row"), std::string::npos) << errors[1];
    for (const std::string& error : errors) {
      EXPECT_NE(error.find(" of worker "), std::string::npos) << error;
      EXPECT_NE(error.find("'s part of the batch; expected 0 to 3"), std::string::npos) << error;
    }
  }
}

/// Worker 1 has thrown "told" outside a replica function.
void expect_told(const std::array<std::string, 2>& errors) {
  EXPECT_NE(errors[0].find("/job:worker/task:1 threw after run "), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find(": told"), std::string::npos) << errors[0];
  EXPECT_EQ(errors[1], "told");
}

TEST(UserErrorsTest, AMapThatThrowsInOneWorker) {
  for (const bool first : {false, true}) {
    for (const bool evaluate : {false, true}) {
      SCOPED_TRACE(str_cat(first ? "first" : "last", evaluate ? ", evaluate" : ", fit"));
      expect_told(errors_of([&](const keras::Model& model, int worker) {
        const at::Tensor labels = at::zeros({16}, at::kLong);
        labels[first ? 0 : 15] = 1;
        const auto disturbed = rows(labels).batch(8).map([worker](const Example& batch) {
          if (worker == 1 && batch.y().sum().item<int64_t>() > 0) throw std::out_of_range("told");
          return batch;
        });
        evaluate ? (void)model.evaluate(disturbed, {.verbose = 0})
                 : (void)model.fit(disturbed, {.verbose = 0});
      }));
    }
  }
}

/// Throws in worker 1 in one of its calls.
class Raiser final : public callbacks::Callback {
 public:
  Raiser(std::string call, int worker) : call_(std::move(call)), worker_(worker) {}
  void on_train_begin() override { raise_in("train begin"); }
  void on_train_batch_end(int64_t, keras::Logs&) override { raise_in("train batch end"); }
  void on_epoch_end(int64_t, keras::Logs&) override { raise_in("epoch end"); }
  void on_test_batch_begin(int64_t) override { raise_in("test batch begin"); }
  void on_predict_batch_end(int64_t) override { raise_in("predict batch end"); }

 private:
  void raise_in(std::string_view call) const {
    if (worker_ == 1 && call == call_) throw std::out_of_range("told");
  }

  const std::string call_;
  const int worker_;
};

TEST(UserErrorsTest, ACallbackThatThrowsInOneWorker) {
  for (const char* call :
       {"train begin", "train batch end", "epoch end", "test batch begin", "predict batch end"}) {
    SCOPED_TRACE(call);
    expect_told(errors_of([&](const keras::Model& model, int worker) {
      const Dataset batches = rows(at::zeros({16}, at::kLong)).batch(8);
      const Raiser raiser(call, worker);
      model.fit(batches,
                {.epochs = 2, .validation_data = batches, .callbacks = {raiser}, .verbose = 0});
      model.predict(batches, {.callbacks = {raiser}, .verbose = 0});
    }));
  }
}

}  // namespace
}  // namespace strata
