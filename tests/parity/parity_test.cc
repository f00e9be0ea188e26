// N replicas train as one device does: the same weights in float64; in float32 loss curves no
// further apart than rounding in another order makes them.

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>

#include "parity/models.h"
#include "support/replicas.h"

namespace strata::parity {
namespace {

constexpr int kReplicas[] = {1, 2, 3, 4, 8};
constexpr int kSteps = 30;
// No replica count divides them all; 3 and 5 leave replicas without rows.
const std::vector<int64_t> kBatchSizes = {13, 7, 16, 3, 11, 5};

Strategy& strategy_of(int replicas) {
  static std::map<int, std::unique_ptr<MirroredStrategy>> strategies;
  std::unique_ptr<MirroredStrategy>& strategy = strategies[replicas];
  if (!strategy) {
    set_logical_devices("cpu", 8);
    strategy = std::make_unique<MirroredStrategy>(
        MirroredOptions{.devices = cpus(replicas), .replicas = {.threads_per_replica = 1}});
  }
  return *strategy;
}

void expect_same_bits_on_all_replicas(const std::vector<Variable>& variables, int replicas) {
  for (const Variable& variable : variables) {
    for (int r = 1; r < replicas; ++r) {
      EXPECT_TRUE(variable.on_replica(r).equal(variable.on_replica(0))) << variable.name();
    }
  }
}

/// Every optimizer, every number of replicas, in float64.
void expect_parity(Kind kind) {
  const Batches batches = make_batches(kind, at::kDouble, kSteps, kBatchSizes);
  double most = 0;
  int turn = 0;
  std::vector<OptimizerCase> cases = optimizer_cases();
  if (kind == Kind::kMlp || kind == Kind::kSparseEmbedding) {
    std::ranges::move(more_optimizer_cases(), std::back_inserter(cases));
  }
  for (const OptimizerCase& each : cases) {
    const bool both_forms = each.name == "sgd momentum" || each.name == "adam";
    const Outcome one = train_on_one_device(kind, at::kDouble, batches, each, Form::kAverageLoss);
    double weights = 0, slots = 0, buffers = 0, losses = 0;
    for (const int replicas : kReplicas) {
      ++turn;
      for (const Form form : {Form::kAverageLoss, Form::kWeight}) {
        if (!both_forms && (form == Form::kWeight) != (turn % 2 == 0)) continue;
        const Outcome many =
            train_under(strategy_of(replicas), kind, at::kDouble, batches, each, form);
        const double apart = difference(many.weights, one.weights);
        EXPECT_LE(apart, 1e-7) << name_of(kind) << ", " << each.name << ", " << replicas
                               << " replicas";
        weights = std::max(weights, apart);
        slots = std::max(slots, difference(many.slots, one.slots));
        buffers = std::max(buffers, difference(many.buffers, one.buffers));
        ASSERT_EQ(many.losses.size(), one.losses.size());
        for (size_t i = 0; i < one.losses.size(); ++i) {
          losses = std::max(losses, std::abs(many.losses[i] - one.losses[i]));
        }
      }
    }
    EXPECT_LE(slots, 1e-7) << name_of(kind) << ", " << each.name;
    EXPECT_LE(buffers, 1e-7) << name_of(kind) << ", " << each.name;
    EXPECT_LE(losses, 1e-7) << name_of(kind) << ", " << each.name;
    std::printf("float64 %-18s %-30s |dw| %.1e  |dslot| %.1e  |dbuffer| %.1e  |dloss| %.1e\n",
                name_of(kind), each.name.c_str(), weights, slots, buffers, losses);
    most = std::max(most, weights);
  }
  std::printf("float64 %-18s largest |dw| of all: %.1e (bar 1e-07)\n", name_of(kind), most);
}

TEST(ParityMlpTest, WeightsEqualOneDevices) { expect_parity(Kind::kMlp); }
TEST(ParityCnnTest, WeightsEqualOneDevices) { expect_parity(Kind::kCnn); }
TEST(ParityEmbeddingTest, WeightsEqualOneDevices) { expect_parity(Kind::kEmbedding); }
TEST(ParitySparseEmbeddingTest, WeightsEqualOneDevices) { expect_parity(Kind::kSparseEmbedding); }

/// Keras's rules written down with operators, around libtorch's own model and loss.
std::vector<at::Tensor> train_by_hand(Kind kind, const Batches& batches, const std::string& rule) {
  at::set_num_threads(1);
  // Sparse and dense gradients mean the same.
  Net net(kind == Kind::kSparseEmbedding ? Kind::kEmbedding : kind, at::kDouble, /*plain=*/true);
  std::vector<at::Tensor> weights = net.parameters();
  std::vector<at::Tensor> m, v;
  for (const at::Tensor& weight : weights) {
    m.push_back(at::zeros_like(weight).detach());
    v.push_back(at::zeros_like(weight).detach());
  }
  double t = 0;
  for (const data::Example& batch : batches) {
    ++t;
    net.zero_grad();
    torch::nn::functional::cross_entropy(net.forward(batch.x()), batch.y()).backward();
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < weights.size(); ++i) {
      at::Tensor& w = weights[i];
      const at::Tensor g = w.grad();
      if (rule == "adam") {
        constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-7;
        const double alpha = kRate * std::sqrt(1 - std::pow(kBeta2, t)) / (1 - std::pow(kBeta1, t));
        m[i] += (g - m[i]) * (1 - kBeta1);
        v[i] += (g * g - v[i]) * (1 - kBeta2);
        w -= m[i] * alpha / (v[i].sqrt() + kEpsilon);
      } else if (rule == "sgd") {
        w -= 0.1 * g;
      } else {
        m[i] = 0.9 * m[i] - 0.1 * g;
        w += rule == "sgd nesterov" ? 0.9 * m[i] - 0.1 * g : m[i];
      }
    }
  }
  return weights;
}

TEST(ParityByHandTest, WeightsEqualAHandWrittenLoop) {
  for (const Kind kind : kAllKinds) {
    const Batches batches = make_batches(kind, at::kDouble, kSteps, kBatchSizes);
    for (const OptimizerCase& each : optimizer_cases()) {
      if (each.name != "sgd" && each.name != "sgd momentum" && each.name != "sgd nesterov" &&
          each.name != "adam") {
        continue;
      }
      const std::vector<at::Tensor> by_hand = train_by_hand(kind, batches, each.name);
      double most = difference(
          train_on_one_device(kind, at::kDouble, batches, each, Form::kWeight).weights, by_hand);
      for (const int replicas : {1, 3, 8}) {
        const Outcome many = train_under(strategy_of(replicas), kind, at::kDouble, batches, each,
                                         Form::kAverageLoss);
        most = std::max(most, difference(many.weights, by_hand));
      }
      EXPECT_LE(most, 1e-7) << name_of(kind) << ", " << each.name;
      std::printf("by hand %-18s %-30s |dw| %.1e\n", name_of(kind), each.name.c_str(), most);
    }
  }
}

Batches permute_rows(const Batches& batches, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  Batches permuted;
  for (const data::Example& batch : batches) {
    const at::Tensor order = at::randperm(batch.num_rows(), generator, at::kLong);
    permuted.push_back(
        batch.map([&](const at::Tensor& field) { return field.index_select(0, order); }));
  }
  return permuted;
}

double curve_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(ParityFloat32Test, LossCurveStaysWithinThreeTimesWhatPermutingTheBatchDoes) {
  for (const Kind kind : kAllKinds) {
    const Batches batches = make_batches(kind, at::kFloat, kSteps, kBatchSizes);
    for (const OptimizerCase& each : optimizer_cases()) {
      // Float64 has the variants of each rule; here the rules are enough.
      if (each.name.find("clip") != std::string::npos) continue;
      const Outcome one = train_on_one_device(kind, at::kFloat, batches, each, Form::kAverageLoss);
      double permuting = 0;
      for (uint64_t seed = 0; seed < 8; ++seed) {
        const Outcome other = train_on_one_device(kind, at::kFloat, permute_rows(batches, seed),
                                                  each, Form::kAverageLoss);
        permuting = std::max(permuting, curve_distance(other.losses, one.losses));
      }
      double most = 0;
      for (const int replicas : kReplicas) {
        const Outcome many =
            train_under(strategy_of(replicas), kind, at::kFloat, batches, each, Form::kAverageLoss);
        const double apart = curve_distance(many.losses, one.losses);
        EXPECT_LE(apart, 3 * permuting)
            << name_of(kind) << ", " << each.name << ", " << replicas << " replicas";
        most = std::max(most, apart);
      }
      std::printf("float32 %-18s %-30s curves %.1e apart, permuting %.1e: %.2f times (bar 3)\n",
                  name_of(kind), each.name.c_str(), most, permuting, most / permuting);
    }
  }
}

TEST(ParityReplicasTest, EveryReplicaHoldsTheSameBits) {
  set_logical_devices("cpu", 8);
  for (const bool share_storage : {true, false}) {
    MirroredStrategy strategy(
        {.devices = cpus(5),
         .replicas = {.threads_per_replica = 1, .share_storage = share_storage}});
    const auto net =
        strategy.replicate([] { return std::make_shared<Net>(Kind::kCnn, at::kFloat); });
    optimizers::Adam adam(net.variables());
    const Batches batches = make_batches(Kind::kCnn, at::kFloat, 6, kBatchSizes);
    for (const auto& batch : strategy.distribute(as_dataset(batches))) {
      strategy.run(
          [&](const data::Example& part) {
            train_step(*net, adam, part, part.num_rows(), Form::kWeight);
          },
          batch);
    }
    expect_same_bits_on_all_replicas(net.variables(), 5);
    expect_same_bits_on_all_replicas(net.buffers(), 5);
  }
}

}  // namespace
}  // namespace strata::parity
