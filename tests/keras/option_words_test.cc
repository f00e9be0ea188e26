#include <gtest/gtest.h>

#include "strata/cluster/server.h"
#include "strata/collective/communication_options.h"
#include "strata/keras/confusion_metrics.h"
#include "strata/keras/initializers.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/attention.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/image_preprocessing.h"
#include "strata/keras/layers/recurrent.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/layers/wrappers.h"
#include "strata/keras/metric.h"
#include "strata/keras/regularizers.h"
#include "strata/keras/score_metrics.h"

// An enumerator is the same option as its word, in Keras's files too.
namespace strata {
namespace {

Json options_of(const keras::Layer& layer) {
  Json config = to_config(layer).at("config");
  config.set("name", "layer");
  return config;
}

TEST(OptionWordsTest, LayersTakeEnumerators) {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  EXPECT_EQ(options_of(Conv2D(
                4, 3, {.padding = Padding::kSame, .data_format = DataFormat::kChannelsFirst})),
            options_of(Conv2D(4, 3, {.padding = "same", .data_format = "channels_first"})));
  EXPECT_EQ(options_of(UpSampling2D(2, {.interpolation = Interpolation::kLanczos5})),
            options_of(UpSampling2D(2, {.interpolation = "lanczos5"})));
  EXPECT_EQ(options_of(RandomRotation(0.1, {.fill_mode = FillMode::kWrap})),
            options_of(RandomRotation(0.1, {.fill_mode = "wrap"})));
  EXPECT_EQ(options_of(RandomFlip(FlipMode::kVertical)), options_of(RandomFlip("vertical")));
  EXPECT_EQ(options_of(Attention({.score_mode = ScoreMode::kConcat})),
            options_of(Attention({.score_mode = "concat"})));
  EXPECT_EQ(options_of(Bidirectional(LSTM(2, {.name = "lstm"}), {.merge_mode = MergeMode::kSum})),
            options_of(Bidirectional(LSTM(2, {.name = "lstm"}), {.merge_mode = "sum"})));
}

TEST(OptionWordsTest, InitializersAndRegularizersTakeEnumerators) {
  using initializers::FanMode;
  using initializers::VarianceDistribution;
  using initializers::VarianceScaling;
  EXPECT_EQ(to_config(VarianceScaling(
                {.mode = FanMode::kFanAvg, .distribution = VarianceDistribution::kUniform})),
            to_config(VarianceScaling({.mode = "fan_avg", .distribution = "uniform"})));
  using regularizers::OrthogonalMode;
  using regularizers::OrthogonalRegularizer;
  EXPECT_EQ(to_config(OrthogonalRegularizer({.mode = OrthogonalMode::kColumns})),
            to_config(OrthogonalRegularizer({.mode = "columns"})));
}

TEST(OptionWordsTest, MetricsTakeEnumerators) {
  using namespace metrics;  // NOLINT(google-build-using-namespace)
  EXPECT_EQ(to_config(AUC({.curve = AUCCurve::kPR, .summation_method = AUCSummation::kMajoring})),
            to_config(AUC({.curve = "pr", .summation_method = "majoring"})));
  EXPECT_EQ(to_config(F1Score({.average = ScoreAverage::kMacro})),
            to_config(F1Score({.average = "macro"})));
  EXPECT_EQ(to_config(R2Score({.class_aggregation = R2Aggregation::kVarianceWeightedAverage})),
            to_config(R2Score({.class_aggregation = "variance_weighted_average"})));
}

TEST(OptionWordsTest, ClustersTakeEnumerators) {
  using collective::CommunicationImplementation;
  const collective::CommunicationOptions ring = {.implementation =
                                                     CommunicationImplementation::kRing};
  EXPECT_EQ(ring.implementation, "RING");
  const cluster::ServerOptions server = {.wire = cluster::Wire::kUcx};
  EXPECT_TRUE(server.wire == "ucx");
}

}  // namespace
}  // namespace strata
