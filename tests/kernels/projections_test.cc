// Several dense layers of one input, against libtorch's.
#include "kernels/projections.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "kernels/fenced_allocator.h"
#include "kernels/kernel_threads.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

using ProjectionTensors = std::vector<at::Tensor>;

at::Tensor projection_leaf(const at::Tensor& value) {
  return value.detach().clone().set_requires_grad(true);
}

struct ProjectionInputs {
  at::Tensor x;
  ProjectionTensors weights, biases;

  static ProjectionInputs make(int64_t rows, int64_t inputs, const std::vector<int64_t>& outputs,
                               bool has_biases) {
    ProjectionInputs made;
    made.x = projection_leaf(torch::randn({rows, inputs}));
    for (const int64_t n : outputs) {
      made.weights.push_back(projection_leaf(torch::randn({inputs, n})));
      if (has_biases) made.biases.push_back(projection_leaf(torch::randn({n})));
    }
    return made;
  }
  ProjectionInputs in_double() const {
    ProjectionInputs made;
    made.x = projection_leaf(x.to(at::kDouble));
    for (const auto& each : weights) made.weights.push_back(projection_leaf(each.to(at::kDouble)));
    for (const auto& each : biases) made.biases.push_back(projection_leaf(each.to(at::kDouble)));
    return made;
  }
  ProjectionTensors all() const {
    ProjectionTensors list = {x};
    list.insert(list.end(), weights.begin(), weights.end());
    list.insert(list.end(), biases.begin(), biases.end());
    return list;
  }
  ProjectionTensors libtorch() const {
    ProjectionTensors outputs;
    for (size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor product = x.mm(weights[i]);
      outputs.push_back(biases.empty() ? product : product + biases[i]);
    }
    return outputs;
  }
  ProjectionTensors own() const { return projections(x, weights, biases).value(); }
};

/// A number to differentiate; the second output counts twice.
at::Tensor projection_loss(const ProjectionTensors& outputs) {
  at::Tensor sum = outputs[0].pow(2).sum();
  for (size_t i = 1; i < outputs.size(); ++i) sum = sum + outputs[i].pow(2).sum() * 2;
  return sum;
}

class ProjectionsTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(2);
    at::set_num_threads(1);
    if (!projections(torch::ones({4, 4}), {torch::ones({4, 4})}, {})) {
      GTEST_SKIP() << "libtorch's products are chosen";
    }
  }
};

TEST_F(ProjectionsTest, ValuesAndGradientsAgreeWithDouble) {
  for (const int64_t rows : {1, 3, 64, 300}) {
    for (const bool has_biases : {true, false}) {
      const ProjectionInputs given = ProjectionInputs::make(rows, 31, {40, 17, 1}, has_biases);
      const ProjectionInputs exact = given.in_double();
      const ProjectionTensors outputs = given.own();
      const ProjectionTensors want = exact.libtorch();
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_LT(largest_error(outputs[i].detach(), want[i].detach()), 1e-6);
      }
      const auto got = torch::autograd::grad({projection_loss(outputs)}, given.all());
      const auto gradients = torch::autograd::grad({projection_loss(want)}, exact.all());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(largest_error(got[i], gradients[i]), 1e-6);
    }
  }
}

TEST_F(ProjectionsTest, SomeOutputsMayBeUnused) {
  const ProjectionInputs given = ProjectionInputs::make(8, 12, {5, 6, 7}, true);
  const ProjectionInputs exact = given.in_double();
  const auto got = torch::autograd::grad({given.own()[1].sum()}, given.all());
  const at::Tensor want = torch::autograd::grad({exact.libtorch()[1].sum()}, {exact.x})[0];
  EXPECT_LT(largest_error(got[0], want), 1e-6);
  EXPECT_TRUE(got[1].eq(0).all().item<bool>());
  EXPECT_TRUE(got[5].eq(8).all().item<bool>());
}

TEST_F(ProjectionsTest, HasSecondDerivatives) {
  const auto penalty = [](const ProjectionInputs& each, const ProjectionTensors& outputs) {
    const auto gradients =
        torch::autograd::grad({projection_loss(outputs)}, each.all(), {}, std::nullopt,
                              /*create_graph=*/true);
    at::Tensor sum = gradients[0].pow(2).sum();
    for (size_t i = 1; i < gradients.size(); ++i) sum = sum + gradients[i].pow(2).sum();
    return torch::autograd::grad({sum}, each.all());
  };
  const ProjectionInputs given = ProjectionInputs::make(6, 9, {5, 4}, true);
  const ProjectionInputs exact = given.in_double();
  const auto got = penalty(given, given.own());
  const auto want = penalty(exact, exact.libtorch());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(largest_error(got[i], want[i]), 1e-5);
}

TEST_F(ProjectionsTest, BitsDoNotDependOnThreads) {
  const ProjectionInputs given = ProjectionInputs::make(300, 130, {90, 70, 64}, true);
  const auto run = [&](int threads) {
    set_kernel_threads(threads);
    const ProjectionTensors outputs = given.own();
    auto all = torch::autograd::grad({projection_loss(outputs)}, given.all());
    all.insert(all.end(), outputs.begin(), outputs.end());
    set_kernel_threads(0);
    return all;
  };
  const auto one = run(1);
  for (int threads = 2; threads <= 7; ++threads) {
    const auto many = run(threads);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(same_bits(many[i].detach(), one[i].detach())) << threads;
    }
  }
}

TEST_F(ProjectionsTest, TouchesNoMemoryBesideItsTensors) {
  const FencedAllocator fenced;
  for (const int64_t rows : {1, 7, 65}) {
    const ProjectionInputs given = ProjectionInputs::make(rows, 13, {5, 33}, true);
    projection_loss(given.own()).backward();
  }
}

ProjectionTensors through_the_dispatcher(const ProjectionInputs& given) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("strata::projections", "")
      .typed<ProjectionTensors(const at::Tensor&, at::TensorList, at::TensorList)>()
      .call(given.x, given.weights, given.biases);
}

TEST_F(ProjectionsTest, TheOperatorsOfATenSayTheSame) {
  for (const bool has_biases : {true, false}) {
    const ProjectionInputs given = ProjectionInputs::make(9, 12, {5, 6}, has_biases);
    const ProjectionInputs exact = given.in_double();
    const ProjectionTensors own = through_the_dispatcher(given);
    const ProjectionTensors want = through_the_dispatcher(exact);
    EXPECT_EQ(want[1].grad_fn()->name(), "ProjectionsBackward");
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_LT(largest_error(own[i].detach(), want[i].detach()), 1e-6);
    }
    const auto got = torch::autograd::grad({projection_loss(own)}, given.all());
    const auto gradients = torch::autograd::grad({projection_loss(want)}, exact.all());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(largest_error(got[i], gradients[i]), 1e-6);
  }
  ProjectionInputs shapes = ProjectionInputs::make(9, 12, {5, 6}, true);
  for (at::Tensor* each :
       {&shapes.x, &shapes.weights[0], &shapes.weights[1], &shapes.biases[0], &shapes.biases[1]}) {
    *each = torch::empty(each->sizes(), at::TensorOptions(at::kMeta)).set_requires_grad(true);
  }
  const ProjectionTensors outputs = through_the_dispatcher(shapes);
  EXPECT_EQ(outputs[1].sizes(), (at::IntArrayRef{9, 6}));
  const auto gradients = torch::autograd::grad({projection_loss(outputs)}, shapes.all());
  EXPECT_EQ(gradients[0].sizes(), shapes.x.sizes());
  EXPECT_EQ(gradients[2].sizes(), shapes.weights[1].sizes());
}

TEST_F(ProjectionsTest, OtherInputsAreNotTaken) {
  const ProjectionInputs given = ProjectionInputs::make(8, 12, {5, 6}, true);
  const ProjectionInputs exact = given.in_double();
  EXPECT_FALSE(projections(exact.x, exact.weights, exact.biases).has_value());
  EXPECT_FALSE(projections(given.x, {torch::ones({11, 4})}, {}).has_value());
  EXPECT_FALSE(projections(given.x, given.weights, {given.biases[0]}).has_value());
}

}  // namespace
}  // namespace strata::kernels
