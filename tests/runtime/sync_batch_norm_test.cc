#include "strata/runtime/sync_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/sync_batch_norm_paths.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"

namespace strata {
namespace {

using Sizes = std::vector<int64_t>;

MirroredStrategy make_strategy(int replicas, int permits = 0) {
  set_logical_devices("cpu", replicas);
  std::vector<std::string> devices;
  for (int i = 0; i < replicas; ++i) devices.push_back(str_cat("cpu:", i));
  return MirroredStrategy(
      {.devices = devices, .replicas = {.permits = permits, .threads_per_replica = 1}});
}

/// The rows of `x`, cut into parts of these sizes.
PerReplica<at::Tensor> in_parts(const at::Tensor& x, const Sizes& sizes) {
  return PerReplica<at::Tensor>(x.split_with_sizes(sizes, 0));
}

/// What one training step shows of a BatchNormalization.
struct Seen {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, variance;
  int64_t batches = 0;
};

template <typename Norm>
Seen step(Norm& norm, const at::Tensor& rows, const at::Tensor& cotangent) {
  const at::Tensor x = rows.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
  const at::Tensor y = norm->forward(x);
  (y * cotangent).sum().backward();
  Seen seen;
  seen.output = y.detach();
  seen.input_gradient = x.grad();
  if (norm->weight.defined()) {
    seen.weight_gradient = norm->weight.grad();
    seen.bias_gradient = norm->bias.grad();
    norm->zero_grad();
  }
  if (norm->running_mean.defined()) {
    seen.mean = norm->running_mean.clone();
    seen.variance = norm->running_var.clone();
    seen.batches = norm->num_batches_tracked.template item<int64_t>();
  }
  return seen;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  if (a.numel() == 0) return 0;
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

void initialise(torch::nn::Module& norm, at::ScalarType dtype) {
  norm.to(dtype);
  const at::NoGradGuard no_grad;
  for (auto& item : norm.named_parameters()) {
    item.value().copy_(at::linspace(0.5, 1.5, item.value().numel()) *
                       (item.key() == "bias" ? -1 : 1));
  }
}

/// Two steps on `sizes.size()` replicas equal two steps of torch::nn::BatchNorm on the whole batch.
template <typename Reference>
void expect_one_device(const Sizes& sizes, const Sizes& trailing, at::ScalarType dtype,
                       double tolerance, at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  SCOPED_TRACE(str_cat(sizes.size(), " replicas, first part ", sizes[0], ", ", dtype));
  const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  Sizes shape = trailing;
  shape.insert(shape.begin(), rows);
  const int64_t channels = trailing[0];
  Reference reference(torch::nn::BatchNormOptions(channels).momentum(0.3));
  initialise(*reference, dtype);

  MirroredStrategy strategy = make_strategy(static_cast<int>(sizes.size()));
  const auto net = strategy.replicate([&] {
    SyncBatchNorm norm(SyncBatchNormOptions(channels).momentum(0.3));
    initialise(*norm, dtype);
    return norm;
  });
  for (int round = 0; round < 2; ++round) {
    const at::Tensor x = (at::randn(shape) * 2 + 3).to(dtype).contiguous(format);
    const at::Tensor cotangent = at::randn(shape).to(dtype);
    const Seen whole = step(reference, x, cotangent);
    const auto parts =
        strategy.run([&](const at::Tensor& part,
                         const at::Tensor& cotangents) { return step(net, part, cotangents); },
                     in_parts(x, sizes), in_parts(cotangent, sizes));
    std::vector<at::Tensor> outputs, gradients;
    at::Tensor weight_gradient = at::zeros_like(whole.weight_gradient);
    at::Tensor bias_gradient = at::zeros_like(whole.bias_gradient);
    for (const Seen& part : parts) {
      outputs.push_back(part.output);
      gradients.push_back(part.input_gradient);
      weight_gradient += part.weight_gradient;
      bias_gradient += part.bias_gradient;
      EXPECT_LE(difference(part.mean, whole.mean), tolerance);
      EXPECT_LE(difference(part.variance, whole.variance), tolerance);
      EXPECT_TRUE(part.mean.equal(parts.get(0).mean));
      EXPECT_TRUE(part.variance.equal(parts.get(0).variance));
      EXPECT_EQ(part.batches, whole.batches);
    }
    EXPECT_LE(difference(at::cat(outputs), whole.output), tolerance);
    EXPECT_LE(difference(at::cat(gradients), whole.input_gradient), tolerance);
    // Sums over all rows: relative to their number.
    EXPECT_LE(difference(weight_gradient, whole.weight_gradient), tolerance * 20);
    EXPECT_LE(difference(bias_gradient, whole.bias_gradient), tolerance * 20);
  }
  reference->eval();
  net->eval();
  const at::Tensor x = (at::randn(shape) * 2 + 3).to(dtype);
  const auto evaluated = strategy.run(
      [&](const at::Tensor& part) { return net->forward(part).detach(); }, in_parts(x, sizes));
  EXPECT_LE(difference(strategy.gather(evaluated, 0), reference->forward(x)), tolerance * 4);
  EXPECT_LE(difference(net->forward(x), reference->forward(x)), tolerance * 4) << "outside run";
}

TEST(SyncBatchNormTest, EqualsOneDeviceOnTheWholeBatch) {
  torch::manual_seed(1);
  for (const Sizes& sizes :
       {Sizes{12}, Sizes{6, 6}, Sizes{4, 4, 4}, Sizes{2, 2, 2, 2, 1, 1, 1, 1}, Sizes{9, 3},
        Sizes{7, 0, 5}, Sizes{0, 0, 12}, Sizes{1, 1, 1, 1, 1, 0, 0, 0}}) {
    expect_one_device<torch::nn::BatchNorm1d>(sizes, {5}, at::kDouble, 1e-12);
    expect_one_device<torch::nn::BatchNorm1d>(sizes, {5}, at::kFloat, 2e-6);
    expect_one_device<torch::nn::BatchNorm2d>(sizes, {3, 5, 7}, at::kDouble, 1e-12);
    expect_one_device<torch::nn::BatchNorm2d>(sizes, {3, 5, 7}, at::kFloat, 2e-6);
  }
  expect_one_device<torch::nn::BatchNorm1d>({5, 4}, {3, 11}, at::kFloat, 2e-6);
  expect_one_device<torch::nn::BatchNorm3d>({5, 4}, {3, 2, 3, 4}, at::kFloat, 2e-6);
  expect_one_device<torch::nn::BatchNorm2d>({5, 4}, {3, 4, 4}, at::kFloat, 2e-6,
                                            at::MemoryFormat::ChannelsLast);
}

TEST(SyncBatchNormTest, LargeMeansDoNotCancel) {
  torch::manual_seed(2);
  const at::Tensor exact = at::randn({64, 4}, at::kDouble) * std::sqrt(0.0125) + 10000;
  const at::Tensor x = exact.to(at::kFloat);
  const at::Tensor wide = x.to(at::kDouble);  // what float32 holds of it
  const at::Tensor variance = wide.var(0, /*unbiased=*/false);
  const at::Tensor expected = (wide - wide.mean(0)) / (variance + 1e-5).sqrt();
  MirroredStrategy strategy = make_strategy(3);
  const auto net =
      strategy.replicate([] { return SyncBatchNorm(SyncBatchNormOptions(4).momentum(1)); });
  const auto outputs =
      strategy.run([&](const at::Tensor& part) { return net->forward(part).detach(); },
                   in_parts(x, {22, 21, 21}));
  EXPECT_LE(difference(strategy.gather(outputs, 0), expected), 2e-6);
  EXPECT_LE(difference(net->running_var, wide.var(0)), 1e-8);
}

TEST(SyncBatchNormTest, AnEmptyReplicaDoesNotSlowTheMovingStatistics) {
  MirroredStrategy strategy = make_strategy(2);
  const auto net =
      strategy.replicate([] { return SyncBatchNorm(SyncBatchNormOptions(1).momentum(0.5)); });
  const at::Tensor x = at::full({4, 1}, 2.0);
  strategy.run([&](const at::Tensor& part) { net->forward(part); }, in_parts(x, {4, 0}));
  EXPECT_EQ(net->running_mean.item<float>(), 1);  // TensorFlow's: 0.5
  EXPECT_EQ(net->running_var.item<float>(), 0.5);
  // Nobody has rows: nothing moves, nothing is NaN.
  strategy.run([&](const at::Tensor& part) { EXPECT_EQ(net->forward(part).size(0), 0); },
               in_parts(at::empty({0, 1}), {0, 0}));
  EXPECT_EQ(net->running_mean.item<float>(), 1);
}

TEST(SyncBatchNormTest, BitsDoNotDependOnPermits) {
  std::vector<at::Tensor> weights;
  for (const int permits : {1, 3, 8}) {
    torch::manual_seed(3);
    MirroredStrategy strategy = make_strategy(8, permits);
    const at::Tensor x = at::randn({37, 6, 3});
    const auto net = strategy.replicate([] { return SyncBatchNorm(6); });
    const auto gradients = strategy.run(
        [&](const at::Tensor& part) { return step(net, part, part.square()).input_gradient; },
        in_parts(x, {5, 5, 5, 5, 5, 4, 4, 4}));
    weights.push_back(at::cat(std::vector<at::Tensor>{strategy.gather(gradients, 0).flatten(),
                                                      net->running_mean, net->running_var}));
    EXPECT_TRUE(weights.back().equal(weights.front())) << permits;
  }
}

TEST(SyncBatchNormTest, HalfPrecisionAccumulatesInMore) {
  torch::manual_seed(4);
  const at::Tensor x = (at::randn({4096, 2}) + 50).to(at::kBFloat16);
  MirroredStrategy strategy = make_strategy(2);
  const auto net =
      strategy.replicate([] { return SyncBatchNorm(SyncBatchNormOptions(2).momentum(1)); });
  const auto outputs =
      strategy.run([&](const at::Tensor& part) { return net->forward(part).detach(); },
                   in_parts(x, {2048, 2048}));
  EXPECT_EQ(outputs.get(0).scalar_type(), at::kBFloat16);
  const at::Tensor wide = x.to(at::kDouble);
  EXPECT_LE(difference(net->running_mean, wide.mean(0)), 1e-5);
  EXPECT_LE(difference(net->running_var, wide.var(0)), 1e-5);
}

TEST(SyncBatchNormTest, OperatorsForOtherDevicesGiveTheSame) {
  torch::manual_seed(5);
  MirroredStrategy strategy = make_strategy(3);
  const at::Tensor x = at::randn({9, 4, 5}, at::kDouble) + 3;
  const at::Tensor w = at::rand({4}, at::kDouble);
  const at::Tensor b = at::rand({4}, at::kDouble);
  const auto run = [&](auto path) {
    const auto result = strategy.run(
        [&](const at::Tensor& part) {
          const at::Tensor rows = part.detach().clone().requires_grad_();
          const at::Tensor weight = w.clone().requires_grad_();
          const at::Tensor bias = b.clone().requires_grad_();
          const auto [y, moments] = path(rows, weight, bias, 1e-5, get_replica_context());
          (y * part.square()).sum().backward();
          return at::cat(std::vector<at::Tensor>{y.detach().flatten(), rows.grad().flatten(),
                                                 weight.grad(), bias.grad(), moments.mean,
                                                 moments.m2});
        },
        in_parts(x, {5, 4, 0}));
    return at::cat(result.values());
  };
  EXPECT_LE(
      difference(run(detail::sync_batch_norm_by_operators), run(detail::sync_batch_norm_fused)),
      1e-12);
}

TEST(SyncBatchNormTest, WithoutAffineOrTrackingItStillSynchronizes) {
  torch::manual_seed(6);
  MirroredStrategy strategy = make_strategy(2);
  const auto net = strategy.replicate([] {
    return SyncBatchNorm(SyncBatchNormOptions(3).affine(false).track_running_stats(false));
  });
  torch::nn::BatchNorm1d reference(
      torch::nn::BatchNormOptions(3).affine(false).track_running_stats(false));
  net->eval();
  reference->eval();  // batch statistics all the same
  const at::Tensor x = at::randn({7, 3}, at::kDouble);
  const auto outputs =
      strategy.run([&](const at::Tensor& part) { return net->forward(part); }, in_parts(x, {4, 3}));
  EXPECT_LE(difference(strategy.gather(outputs, 0), reference->forward(x)), 1e-12);
}

void expect_error(ErrorCode code, const std::string& text, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(SyncBatchNormTest, BadInputSaysWhatItIs) {
  SyncBatchNorm norm(3);
  expect_error(ErrorCode::kInvalidArgument, "expected [N, 3, ...]",
               [&] { norm->forward(at::ones({3})); });
  expect_error(ErrorCode::kInvalidArgument, "expected [N, 3, ...]", [&] {
    norm->forward(at::ones({2, 4}));
  });
  expect_error(ErrorCode::kInvalidArgument, "floating", [&] {
    norm->forward(at::ones({2, 3}, at::kLong));
  });
  expect_error(ErrorCode::kInvalidArgument, "more than one", [&] {
    norm->forward(at::ones({1, 3}));
  });
  const at::Tensor x = at::randn({4, 3}).requires_grad_();
  const at::Tensor y = norm->forward(x).sum();
  expect_error(ErrorCode::kUnimplemented, "one derivative",
               [&] { y.backward({}, /*retain_graph=*/true, /*create_graph=*/true); });
}

TEST(SyncBatchNormTest, AReplicaThatFailsBeforeBackwardEndsTheOthers) {
  MirroredStrategy strategy = make_strategy(2);
  const auto net = strategy.replicate([] { return SyncBatchNorm(2); });
  const at::Tensor x = at::randn({4, 2});
  for (int round = 0; round < 2; ++round) {  // the strategy, and libtorch's engine, stay usable
    EXPECT_THROW(strategy.run(
                     [&](const at::Tensor& part) {
                       const at::Tensor y = net->forward(part.detach().clone().requires_grad_());
                       if (get_replica_context()->replica_id_in_sync_group() == 1)
                         throw std::length_error("mine");
                       y.sum().backward();
                     },
                     in_parts(x, {2, 2})),
                 std::length_error);
  }
  strategy.run([&](const at::Tensor& part) { step(net, part, part); }, in_parts(x, {2, 2}));
}

}  // namespace
}  // namespace strata
