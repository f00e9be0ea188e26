#include "tools/study/study_networks.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "simulate/network_table.h"
#include "support/expect_error.h"
#include "tools/study/accuracy.h"

namespace strata::tools {
namespace {

int64_t parameters(const keras::Model& model) {
  int64_t count = 0;
  for (const Variable& variable : model->trainable_variables()) {
    int64_t elements = 1;
    for (const int64_t size : variable.sizes()) elements *= size;
    count += elements;
  }
  return count;
}

TEST(StudyNetworksTest, AlexnetIsTheOneThatIsSimulated) {
  EXPECT_EQ(parameters(make_study_network("alexnet", 227, 1000)),
            simulate::built_in_network("alexnet", 1, 1).bytes() / 4);
}

TEST(StudyNetworksTest, Resnet20HasTheParametersOfItsPaper) {
  EXPECT_EQ(parameters(make_study_network("resnet20", 32, 10)), 272474);
}

TEST(StudyNetworksTest, TrivialHasTwoLayersAndAClassifier) {
  EXPECT_EQ(parameters(make_study_network("trivial", 227, 1000)),
            227 * 227 * 3 + 1 + 2 * 4096 + 4097 * 1000);
}

TEST(StudyNetworksTest, EachTakesItsSmallestImages) {
  for (const StudyNetwork& network : study_networks()) {
    const keras::Model model = make_study_network(network.name, network.smallest, 3);
    const at::Tensor image = at::zeros({1, network.smallest, network.smallest, 3});
    const at::Tensor logits = model.predict(image, {.verbose = 0});
    EXPECT_EQ(logits.sizes(), at::IntArrayRef({1, 3})) << network.name;
  }
  expect_error([] { make_study_network("resnet50", 31, 10); },
               "[strata study] got --image-size 31 for resnet50; expected 32 at least");
}

TEST(AccuracyTest, TheRateFollowsTheReplicas) {
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.1, RateScaling::kLinear, 4), 0.4);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.1, RateScaling::kSqrt, 4), 0.2);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.1, RateScaling::kNone, 4), 0.1);
}

}  // namespace
}  // namespace strata::tools
