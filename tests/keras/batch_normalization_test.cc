#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <numeric>

#include "strata/keras/layer_impl.h"
#include "strata/keras/layers/normalization.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"

namespace strata::layers {
namespace {

using keras::Call;
using keras::Layer;
using keras::Shape;
using keras::Tensors;
using Sizes = std::vector<int64_t>;

MirroredStrategy make_strategy(int replicas) {
  set_logical_devices("cpu", replicas);
  std::vector<std::string> devices;
  for (int i = 0; i < replicas; ++i) devices.push_back(str_cat("cpu:", i));
  return MirroredStrategy({.devices = devices, .replicas = {.threads_per_replica = 1}});
}

/// What one training step shows.
struct Seen {
  at::Tensor output, input_gradient;
  Tensors weight_gradients;  // gamma, beta
};

Seen step(const Layer& layer, const at::Tensor& rows, const at::Tensor& cotangent,
          const at::Tensor& mask) {
  const at::Tensor x = rows.detach().clone(at::MemoryFormat::Preserve).set_requires_grad(true);
  Call call{.training = true};
  if (mask.defined()) call.masks = {mask};
  const at::Tensor y = layer.call({x}, call).at(0);
  Tensors sources{x};
  for (const Variable& variable : layer->trainable_variables()) sources.push_back(variable.value());
  Tensors gradients = torch::autograd::grad({(y * cotangent).sum()}, sources);
  Seen seen{.output = y.detach(), .input_gradient = gradients[0], .weight_gradients = {}};
  seen.weight_gradients.assign(gradients.begin() + 1, gradients.end());
  return seen;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  if (a.numel() == 0) return 0;
  const double worst = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  return worst == worst ? worst : 1e300;
}

Layer make_layer(const Shape& shape, int64_t axis, bool synchronized) {
  const BatchNormalization layer({.axis = axis,
                                  .momentum = 0.7,
                                  .synchronized = synchronized,
                                  .name = "norm",
                                  .dtype = "float64"});
  layer->ensure_built({shape});
  for (const keras::Weight& weight : layer->weights()) {
    if (!weight.trainable) continue;
    Variable(weight.variable)
        .assign(at::linspace(0.5, weight.name == "beta" ? -1 : 1.5, weight.variable.numel()));
  }
  return layer;
}

std::vector<at::Tensor> statistics(const Layer& layer) {
  std::vector<at::Tensor> values;
  for (const Variable& variable : layer->non_trainable_variables())
    values.push_back(variable.value());
  return values;
}

/// Two steps on these shares of a batch equal two steps of one device on all of it.
void expect_one_device(const Sizes& sizes, const Sizes& trailing, int64_t axis, bool masked) {
  SCOPED_TRACE(
      str_cat(sizes.size(), " replicas, first share ", sizes[0], masked ? ", masked" : ""));
  const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  Sizes shape = trailing;
  shape.insert(shape.begin(), rows);
  const Layer whole = make_layer(shape, axis, false);
  MirroredStrategy strategy = make_strategy(static_cast<int>(sizes.size()));
  const Layer shared = strategy.scope([&] { return make_layer(shape, axis, true); });
  for (int round = 0; round < 2; ++round) {
    const at::Tensor x = at::randn(shape, at::kDouble) * 2 + 3;
    const at::Tensor cotangent = at::randn(shape, at::kDouble);
    at::Tensor mask = at::rand(Sizes(shape.begin(), shape.end() - 1)) < 0.6;
    if (!masked) mask = at::Tensor();
    const auto parts_of = [&](const at::Tensor& t) {
      return PerReplica<at::Tensor>(t.defined() ? t.split_with_sizes(sizes, 0)
                                                : Tensors(sizes.size()));
    };
    const Seen expected = step(whole, x, cotangent, mask);
    const auto parts = strategy.run(
        [&](const at::Tensor& part, const at::Tensor& cotangents, const at::Tensor& part_mask) {
          return step(shared, part, cotangents, part_mask);
        },
        parts_of(x), parts_of(cotangent), parts_of(mask));
    Tensors outputs, gradients, sums(2);
    for (const Seen& part : parts) {
      outputs.push_back(part.output);
      gradients.push_back(part.input_gradient);
      for (size_t i = 0; i < 2; ++i) {
        const at::Tensor& gradient = part.weight_gradients.at(i);
        sums[i] = sums[i].defined() ? sums[i] + gradient : gradient;
      }
    }
    EXPECT_LE(difference(at::cat(outputs), expected.output), 1e-7);
    EXPECT_LE(difference(at::cat(gradients), expected.input_gradient), 1e-7);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_LE(difference(sums[i], expected.weight_gradients[i]), 1e-7);
      EXPECT_LE(difference(statistics(shared)[i], statistics(whole)[i]), 1e-7);
    }
  }
}

TEST(BatchNormalizationTest, SynchronizedReplicasEqualOneDevice) {
  at::manual_seed(1);
  for (const Sizes& sizes :
       {Sizes{12}, Sizes{6, 6}, Sizes{9, 3}, Sizes{7, 0, 5}, Sizes{0, 1, 11}}) {
    for (bool masked : {false, true}) {
      expect_one_device(sizes, {5}, -1, masked);
      expect_one_device(sizes, {4, 3, 2}, -1, masked);
    }
    expect_one_device(sizes, {3, 4, 2}, 1, false);
  }
}

TEST(BatchNormalizationTest, AReplicaWithoutRowsChangesNothing) {
  MirroredStrategy strategy = make_strategy(2);
  const Layer layer = strategy.scope([&] { return make_layer({keras::kNone, 3}, -1, false); });
  const at::Tensor x = at::randn({4, 3}, at::kDouble) + 5;
  const auto outputs = strategy.run(
      [&](const at::Tensor& part) { return step(layer, part, at::ones_like(part), {}).output; },
      PerReplica<at::Tensor>(Tensors{x, x.slice(0, 0, 0)}));
  EXPECT_EQ(outputs.get(1).sizes(), (at::IntArrayRef{0, 3}));
  // The mean over replicas: one moved, the other stayed at 0.
  const at::Tensor moved = x.mean(at::IntArrayRef{0}) * 0.3;
  EXPECT_LE(difference(statistics(layer)[0], moved / 2), 1e-12);
}

TEST(BatchNormalizationTest, KeepsTheMemoryOfItsInput) {
  const at::Tensor nchw = at::randn({2, 3, 4, 5});
  for (bool training : {false, true}) {
    const BatchNormalization layer;
    const at::Tensor y = layer.call({nchw.permute({0, 2, 3, 1})}, {.training = training}).at(0);
    EXPECT_EQ(y.sizes(), (at::IntArrayRef{2, 4, 5, 3}));
    EXPECT_TRUE(y.permute({0, 3, 1, 2}).is_contiguous());
    const at::Tensor nhwc =
        layer.call({nchw.permute({0, 2, 3, 1}).contiguous()}, {.training = training}).at(0);
    EXPECT_TRUE(nhwc.is_contiguous());
  }
}

TEST(BatchNormalizationTest, NamesTheLayerInErrors) {
  const BatchNormalization layer({.axis = 3, .name = "norm_of_mine"});
  expect_error_containing(
      [&] {
        layer->ensure_built({{keras::kNone, 4}});
      },
      ErrorCode::kInvalidArgument,
      "\"norm_of_mine\": Axis 3 is out of bounds for input shape (None, 4)");
  const BatchNormalization built({.name = "built"});
  built->ensure_built({{keras::kNone, 4}});
  expect_error_containing(
      [&] {
        built(at::zeros({2, 5}));
      },
      ErrorCode::kInvalidArgument,
      "Input 0 of layer \"built\" is incompatible with the layer: expected axis -1 "
      "of input shape to have value 4, but received input with shape (2, 5)");
  expect_error_containing(
      [&] {
        built.call({at::zeros({2, 4})}, {.masks = {at::ones({2, 4})}});
      },
      ErrorCode::kInvalidArgument, "mask provided should be one dimension less than the inputs");
  const GroupNormalization groups({.groups = 3, .name = "groups"});
  expect_error_containing(
      [&] {
        groups->ensure_built({{keras::kNone, 4}});
      },
      ErrorCode::kInvalidArgument,
      "\"groups\": Number of groups (3) must be a multiple of the number of "
      "channels (4)");
}

}  // namespace
}  // namespace strata::layers
