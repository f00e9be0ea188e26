// What programs do beside one loss a step: two optimizers, gradients accumulated by hand,
// parameters that some or all replicas leave out, tied and frozen ones. Each is compared with one
// device.

#include <gtest/gtest.h>
#include <torch/nn/functional/embedding.h>
#include <torch/nn/functional/linear.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "parity/models.h"
#include "strata/strategies/one_device_strategy.h"
#include "support/replicas.h"

namespace strata::parity {
namespace {

namespace nn = torch::nn;

using Program = std::function<std::vector<at::Tensor>(Strategy&)>;

std::vector<at::Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<at::Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.value().detach().clone());
  return values;
}

MirroredStrategy make_strategy(int replicas, bool share_storage = true) {
  set_logical_devices("cpu", 8);
  return MirroredStrategy({.devices = cpus(replicas),
                           .replicas = {.threads_per_replica = 1, .share_storage = share_storage}});
}

/// `program` leaves the same values behind under the default strategy, on one device through the
/// code of many, and on 1, 2, 3 and 8 replicas.
void expect_one_device(const std::string& name, const Program& program, double tolerance = 1e-12) {
  at::set_num_threads(1);
  const std::vector<at::Tensor> expected = program(default_strategy());
  OneDeviceStrategy one_device({.replicas = {.threads_per_replica = 1}});
  double most = difference(program(one_device), expected);
  EXPECT_LE(most, tolerance) << "OneDeviceStrategy";
  for (const int replicas : {1, 2, 3, 8}) {
    for (const bool share_storage : {true, false}) {
      MirroredStrategy strategy = make_strategy(replicas, share_storage);
      const double apart = difference(program(strategy), expected);
      EXPECT_LE(apart, tolerance) << replicas << " replicas, share_storage " << share_storage;
      most = std::max(most, apart);
    }
  }
  set_logical_devices("cpu", 8);
  MirroredStrategy packing({.devices = cpus(3),
                            .cross_device_ops = std::make_shared<HierarchicalCopyAllReduce>(
                                PackingOptions{.num_packs = 2}),
                            .replicas = {.threads_per_replica = 1}});
  const double apart = difference(program(packing), expected);
  EXPECT_LE(apart, tolerance) << "HierarchicalCopyAllReduce";
  most = std::max(most, apart);
  std::printf("%-40s |dw| %.1e\n", name.c_str(), most);
}

/// Like Strategy::distribute, but with parts of the sizes of choice.
PerReplica<data::Example> cut(const data::Example& batch, const std::vector<int64_t>& sizes) {
  std::vector<data::Example> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(
        batch.map([&](const at::Tensor& field) { return field.narrow(0, begin, size); }));
    begin += size;
  }
  return PerReplica<data::Example>(std::move(parts));
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
}

struct Layers : nn::Module {
  explicit Layers(const std::vector<int64_t>& widths, at::ScalarType dtype = at::kDouble) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      layers.push_back(register_module(str_cat("layer_", i), nn::Linear(widths[i], widths[i + 1])));
    }
    to(dtype);
    set_weights(*this);
  }
  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
      if (i + 1 < layers.size()) x = at::tanh(x);
    }
    return x;
  }
  std::vector<nn::Linear> layers;
};

auto layers(std::vector<int64_t> widths, at::ScalarType dtype = at::kDouble) {
  return [widths = std::move(widths), dtype] { return std::make_shared<Layers>(widths, dtype); };
}

TEST(OptimizerStepsTest, TwoOptimizersWithUnevenNumbersOfSteps) {
  expect_one_device("gan: d steps 30, g steps 10", [](Strategy& strategy) {
    const auto generator = strategy.replicate(layers({6, 8, 2}));
    const auto critic = strategy.replicate(layers({2, 7, 1}));
    optimizers::Adam g(generator.variables(), {.learning_rate = 0.01});
    optimizers::RMSprop d(critic.variables(), {.learning_rate = 0.005});
    const Batches batches = make_batches(Kind::kMlp, at::kDouble, 30, {13, 7, 5});
    int step = 0;
    for (const auto& batch : strategy.distribute(as_dataset(batches))) {
      const int64_t rows = batches[static_cast<size_t>(step)].num_rows();
      strategy.run(
          [&](const data::Example& part) {
            const auto loss = [&](const at::Tensor& x, double label) {
              return compute_average_loss(
                  losses::binary_crossentropy(at::full({x.size(0), 1}, label, at::kDouble),
                                              critic->forward(x), {.from_logits = true}),
                  rows);
            };
            const at::Tensor fake = generator->forward(part.x());
            d.minimize(loss(part.x().narrow(1, 0, 2), 1) + loss(fake.detach(), 0));
            if (step % 3 == 2) {
              g.minimize(loss(generator->forward(part.x()), 1));
              // The way through the critic leaves nothing in it.
              for (const at::Tensor& parameter : critic->parameters()) {
                EXPECT_FALSE(parameter.grad().defined());
              }
            }
          },
          batch);
      ++step;
    }
    EXPECT_EQ(d.iterations(), 30);
    EXPECT_EQ(g.iterations(), 10);
    std::vector<at::Tensor> state = values_of(generator.variables());
    for (const at::Tensor& value : values_of(critic.variables())) state.push_back(value);
    return state;
  });
}

TEST(OptimizerStepsTest, PlainBackwardAccumulatesAndDoesNotCommunicate) {
  const Batches batches = make_batches(Kind::kMlp, at::kDouble, 30, {13, 7, 5});
  for (const Form form : {Form::kAverageLoss, Form::kWeight}) {
    const Program accumulating = [&](Strategy& strategy) {
      const auto net = strategy.replicate(layers({6, 5, 4}));
      optimizers::Adam adam(net.variables(), {.learning_rate = 0.01});
      size_t step = 0;
      PerReplica<double> seen(
          std::vector<double>(static_cast<size_t>(strategy.num_replicas_in_sync()), 0.0));
      for (const auto& batch : strategy.distribute(as_dataset(batches))) {
        const bool last = step % 3 == 2;
        int64_t rows = 0;
        for (size_t i = 0; i < 3; ++i) rows += batches[step / 3 * 3 + i].num_rows();
        seen = strategy.run(
            [&](const data::Example& part, double before) -> double {
              const double examples = before + static_cast<double>(part.num_rows());
              const at::Tensor sum = cross_entropy(net->forward(part.x()), part.y()).sum();
              const at::Tensor loss = form == Form::kWeight ? sum : sum / double(rows);
              if (!last) {
                loss.backward();
                return examples;
              }
              adam.minimize(loss, {.weight = form == Form::kWeight ? examples : 0});
              return 0;
            },
            batch, seen);
        ++step;
      }
      EXPECT_EQ(adam.iterations(), 10);
      return values_of(net.variables());
    };
    expect_one_device("accumulated over 3 batches", accumulating);

    // And as one big batch.
    const auto net = default_strategy().replicate(layers({6, 5, 4}));
    optimizers::Adam adam(net.variables(), {.learning_rate = 0.01});
    for (size_t step = 0; step < batches.size(); step += 3) {
      std::vector<at::Tensor> x, y;
      for (size_t i = step; i < step + 3; ++i) {
        x.push_back(batches[i].x());
        y.push_back(batches[i].y());
      }
      adam.minimize(cross_entropy(net->forward(at::cat(x)), at::cat(y)).mean());
    }
    MirroredStrategy strategy = make_strategy(3);
    EXPECT_LE(difference(accumulating(strategy), values_of(net.variables())), 1e-12);
  }
}

TEST(OptimizerStepsTest, ParametersThatSomeOrAllReplicasLeaveOut) {
  struct Branches : nn::Module {
    nn::Linear always = register_module("always", nn::Linear(6, 4));
    nn::Linear some = register_module("some", nn::Linear(6, 4));
    nn::Linear never = register_module("never", nn::Linear(6, 4));
  };
  for (const double clipnorm : {0.0, 0.05}) {
    expect_one_device("parts left out", [&](Strategy& strategy) {
      const auto net = strategy.replicate([] {
        auto made = std::make_shared<Branches>();
        made->to(at::kDouble);
        set_weights(*made);
        return made;
      });
      const at::Tensor never = net->never->weight.detach().clone();
      optimizers::Adam adam(net.variables(),
                            {.learning_rate = 0.01, .weight_decay = 0.1, .clipnorm = clipnorm});
      const Batches batches = make_batches(Kind::kMlp, at::kDouble, 12, {13, 9});
      size_t step = 0;
      for (const auto& batch : strategy.distribute(as_dataset(batches))) {
        const int64_t rows = batches[step].num_rows();
        // Rows with a mark go through `some`; in every fourth batch there are none.
        const double mark = step % 4 == 3 ? 1e9 : 0.8;
        ++step;
        strategy.run(
            [&](const data::Example& part) {
              at::Tensor logits = net->always(part.x());
              const at::Tensor marked = part.x().select(1, 0) > mark;
              if (marked.any().item<bool>()) {
                logits = logits + net->some(part.x()) * marked.unsqueeze(1);
              }
              adam.minimize(compute_average_loss(cross_entropy(logits, part.y()), rows));
            },
            batch);
      }
      EXPECT_TRUE(net->never->weight.equal(never)) << "not even decayed";
      std::vector<at::Tensor> state = values_of(net.variables());
      for (const auto& [name, slot] : adam.slots()) {
        if (name.starts_with("never")) {
          EXPECT_EQ(slot.abs().max().item<double>(), 0) << name;
        }
        state.push_back(slot.clone());
      }
      return state;
    });
  }
}

struct TiedNet : nn::Module {
  struct Head : nn::Module {
    explicit Head(const at::Tensor& shared) : weight(register_parameter("weight", shared)) {}
    at::Tensor weight;
  };
  TiedNet()
      : table(register_parameter("table", at::empty({13, 5}, at::kDouble))),
        head(register_module("head", std::make_shared<Head>(table))) {
    set_weights(*this);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor rows = nn::functional::embedding(tokens, table).mean(1);
    return nn::functional::linear(at::tanh(rows), head->weight);
  }
  at::Tensor table;
  std::shared_ptr<Head> head;
};

TEST(OptimizerStepsTest, TiedWeightsCountOnce) {
  expect_one_device("tied weights", [](Strategy& strategy) {
    const auto net = strategy.replicate([] { return std::make_shared<TiedNet>(); });
    EXPECT_EQ(net.variables().size(), 1u);
    optimizers::Adam adam(net.variables(), {.learning_rate = 0.01});
    const Batches batches = make_batches(Kind::kEmbedding, at::kDouble, 12, {13, 3});
    size_t step = 0;
    for (const auto& batch : strategy.distribute(as_dataset(batches))) {
      const int64_t rows = batches[step++].num_rows();
      strategy.run(
          [&](const data::Example& part) {
            EXPECT_TRUE(net->table.is_same(net->head->weight));
            adam.minimize(
                compute_average_loss(cross_entropy(net->forward(part.x()), part.y()), rows));
          },
          batch);
    }
    EXPECT_EQ(adam.slots().size(), 2u);
    return values_of(net.variables());
  });
}

TEST(OptimizerStepsTest, FrozenParametersStay) {
  for (const bool hand_all_over : {false, true}) {
    expect_one_device("frozen first layer", [&](Strategy& strategy) {
      const auto net = strategy.replicate([] {
        auto made = layers({6, 5, 4})();
        made->layers[0]->weight.requires_grad_(false);
        return made;
      });
      EXPECT_EQ(net.variables().size(), 3u);
      EXPECT_EQ(net.parameters().size(), 4u);
      const at::Tensor before = net->layers[0]->weight.clone();
      optimizers::SGD sgd(hand_all_over ? net.parameters() : net.variables(),
                          {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
      const Batches batches = make_batches(Kind::kMlp, at::kDouble, 10, {13, 5});
      size_t step = 0;
      for (const auto& batch : strategy.distribute(as_dataset(batches))) {
        const int64_t rows = batches[step++].num_rows();
        strategy.run(
            [&](const data::Example& part) {
              sgd.minimize(
                  compute_average_loss(cross_entropy(net->forward(part.x()), part.y()), rows));
            },
            batch);
      }
      EXPECT_TRUE(net->layers[0]->weight.equal(before));
      return values_of(net.parameters());
    });
  }
}

TEST(OptimizerStepsTest, ASecondOptimizerOverSomeOfTheVariables) {
  expect_one_device("overlapping optimizers", [](Strategy& strategy) {
    const auto net = strategy.replicate(layers({6, 5, 4}));
    const std::vector<Variable> all = net.variables();
    optimizers::SGD first({all[1], all[2]}, {.learning_rate = 0.1, .momentum = 0.9});
    optimizers::Adam second(all, {.learning_rate = 0.01, .global_clipnorm = 0.2});
    const Batches batches = make_batches(Kind::kMlp, at::kDouble, 15, {13, 5});
    size_t step = 0;
    for (const auto& batch : strategy.distribute(as_dataset(batches))) {
      const int64_t rows = batches[step++].num_rows();
      strategy.run(
          [&](const data::Example& part) {
            const auto loss = [&] {
              return compute_average_loss(cross_entropy(net->forward(part.x()), part.y()), rows);
            };
            first.minimize(loss());
            second.minimize(loss());
            if (step % 2 == 0) first.minimize(loss());
          },
          batch);
    }
    return values_of(all);
  });
}

TEST(OptimizerStepsTest, VariablesOfTwoDtypes) {
  // One norm over both.
  expect_one_device(
      "float32 and float64 variables, one norm",
      [](Strategy& strategy) {
        const auto narrow = strategy.replicate(layers({6, 4}, at::kFloat));
        const auto wide = strategy.replicate(layers({6, 4}));
        std::vector<Variable> variables = narrow.variables();
        for (const Variable& each : wide.variables()) variables.push_back(each);
        optimizers::SGD sgd(variables, {.learning_rate = 1, .global_clipnorm = 0.01});
        const Batches batches = make_batches(Kind::kMlp, at::kDouble, 8, {13, 5});
        size_t step = 0;
        for (const auto& batch : strategy.distribute(as_dataset(batches))) {
          const int64_t rows = batches[step++].num_rows();
          const std::vector<at::Tensor> before = values_of(variables);
          strategy.run(
              [&](const data::Example& part) {
                const at::Tensor logits = narrow->forward(part.x().to(at::kFloat)).to(at::kDouble) +
                                          wide->forward(part.x());
                sgd.minimize(compute_average_loss(cross_entropy(logits, part.y()), rows));
              },
              batch);
          double square = 0;
          for (size_t i = 0; i < variables.size(); ++i) {
            square += (variables[i].value().detach() - before[i])
                          .to(at::kDouble)
                          .square()
                          .sum()
                          .item<double>();
          }
          EXPECT_NEAR(std::sqrt(square), 0.01, 1e-6);
        }
        return values_of(variables);
      },
      1e-6);
}

TEST(OptimizerStepsTest, EachExampleCountsTheSameHoweverUnevenTheParts) {
  const data::Example batch = make_batches(Kind::kMlp, at::kDouble, 1, {24})[0];
  const auto one = default_strategy().replicate(layers({6, 5, 4}));
  optimizers::SGD sgd(one.variables(), {.learning_rate = 0.5});
  sgd.minimize(cross_entropy(one->forward(batch.x()), batch.y()).mean());
  const std::vector<at::Tensor> expected = values_of(one.variables());
  double most = 0;
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{24},
                                            {23, 1},
                                            {0, 24},
                                            {5, 0, 19},
                                            {1, 2, 21},
                                            {0, 0, 0, 1, 0, 23, 0, 0},
                                            {3, 3, 3, 3, 3, 3, 3, 3}}) {
    for (const Form form : {Form::kAverageLoss, Form::kWeight}) {
      MirroredStrategy strategy = make_strategy(static_cast<int>(sizes.size()));
      const auto net = strategy.replicate(layers({6, 5, 4}));
      optimizers::SGD optimizer(net.variables(), {.learning_rate = 0.5});
      strategy.run(
          [&](const data::Example& part) {
            const at::Tensor values = cross_entropy(net->forward(part.x()), part.y());
            if (form == Form::kWeight) {
              optimizer.minimize(values.sum(), {.weight = double(part.num_rows())});
            } else {
              optimizer.minimize(compute_average_loss(values, 24));
            }
          },
          cut(batch, sizes));
      const double apart = difference(values_of(net.variables()), expected);
      EXPECT_LE(apart, 1e-14) << sizes.size() << " replicas, the first with " << sizes[0];
      most = std::max(most, apart);
    }
  }
  std::printf("%-40s |dw| %.1e\n", "uneven parts, one step", most);
}

TEST(OptimizerStepsTest, AStepWithoutAnyExamplesHarmsNothing) {
  for (const Kind kind : kAllKinds) {
    for (const int replicas : {1, 3}) {
      for (const Form form : {Form::kAverageLoss, Form::kWeight}) {
        MirroredStrategy strategy = make_strategy(replicas);
        const auto net =
            strategy.replicate([&] { return std::make_shared<Net>(kind, at::kDouble); });
        net->eval();  // moments of nothing are an error of BatchNormalization's own
        optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1, .momentum = 0.9});
        const std::vector<at::Tensor> before = values_of(net.variables());
        const data::Example batch = make_batches(kind, at::kDouble, 1, {4})[0];
        strategy.run(
            [&](const data::Example& part) {
              const at::Tensor values = cross_entropy(net->forward(part.x()), part.y());
              if (form == Form::kWeight) {
                sgd.minimize(values.sum(), {.weight = 0});
              } else {
                sgd.minimize(compute_average_loss(values, 0));
              }
            },
            cut(batch, std::vector<int64_t>(static_cast<size_t>(replicas), 0)));
        EXPECT_EQ(difference(values_of(net.variables()), before), 0) << name_of(kind);
        EXPECT_EQ(sgd.iterations(), 1);
      }
    }
  }
}

TEST(OptimizerStepsTest, OutsideAnyRunWeightsMayBeChangedBetweenSteps) {
  // One device, no strategy: as with torch::optim, weights may be clipped or loaded at any time.
  const auto net = default_strategy().replicate(layers({6, 4}));
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
  const data::Example batch = make_batches(Kind::kMlp, at::kDouble, 1, {8})[0];
  for (int step = 0; step < 3; ++step) {
    sgd.minimize(cross_entropy(net->forward(batch.x()), batch.y()).mean());
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.clamp_(-0.1, 0.1);
  }
  EXPECT_EQ(sgd.iterations(), 3);
}

TEST(OptimizerStepsTest, BetweenRunsWeightsMayBeChangedOnAllReplicasAtOnce) {
  for (const bool share_storage : {true, false}) {
    MirroredStrategy strategy = make_strategy(3, share_storage);
    const auto net = strategy.replicate(layers({6, 4}));
    optimizers::SGD sgd(net.variables(), {.learning_rate = 0.1});
    const data::Example batch = make_batches(Kind::kMlp, at::kDouble, 1, {8})[0];
    for (int step = 0; step < 3; ++step) {
      strategy.run(
          [&](const data::Example& part) {
            for (const at::Tensor& parameter : net->parameters()) {
              EXPECT_LE(parameter.detach().abs().max().item<double>(), step ? 0.1 : 1) << step;
            }
            sgd.minimize(compute_average_loss(cross_entropy(net->forward(part.x()), part.y()), 8));
          },
          cut(batch, {3, 3, 2}));
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : net->parameters()) parameter.clamp_(-0.1, 0.1);
    }
  }
}

TEST(OptimizerStepsTest, GradientsOfSixteenBitsAreAddedToo) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    MirroredStrategy strategy = make_strategy(3);
    const Variable weight =
        strategy.scope([&] { return Variable(at::zeros({4}, at::TensorOptions().dtype(dtype))); });
    optimizers::SGD sgd({weight}, {.learning_rate = 1});
    strategy.run([&] {
      const int replica = get_replica_context()->local_replica();
      sgd.minimize(weight.value().sum() * (replica + 1));  // small whole numbers: exact
    });
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(at::equal(weight.on_replica(r).detach(), at::full({4}, -6, dtype))) << dtype;
    }
  }
}

}  // namespace
}  // namespace strata::parity
