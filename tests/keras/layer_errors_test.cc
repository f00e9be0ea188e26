#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/memory_limit.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/conv_lstm.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/image_preprocessing.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/preprocessing.h"
#include "strata/keras/layers/regularization.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/layers/reversible_embedding.h"
#include "strata/keras/layers/spectral_normalization.h"
#include "strata/keras/layers/spectrograms.h"
#include "support/expect_error.h"

namespace strata::layers {
namespace {

using keras::kNone;

/// What `make` throws.
template <typename Make>
void bad_option(Make make, const std::string& message) {
  expect_error([&] { make(); }, "[layers] " + message);
}

void bad_input(const keras::Layer& layer, at::IntArrayRef shape, const std::string& part) {
  expect_error_containing([&] { layer(at::zeros(shape)); }, ErrorCode::kInvalidArgument, part);
}

TEST(NormalizationErrorsTest, AScaleThatDoesNotFitTheLastAxes) {
  bad_input(RMSNormalization({.axis = 1}), {2, 3, 4},
            "got an input of shape (2, 3, 4), and a scale of shape (3,) for `axis`; expected the "
            "last axes, or such as are as long: scale is multiplied along the last ones");
}

TEST(SpectrogramErrorsTest, OptionsAndInputs) {
  bad_option([] { STFTSpectrogram({.frame_length = 4, .frame_step = 5}); },
             "STFTSpectrogram: `frame_step` should be a positive integer not greater than "
             "`frame_length`. Received frame_step=5, frame_length=4");
  bad_option([] { STFTSpectrogram({.frame_length = 8, .fft_length = 4}); },
             "STFTSpectrogram: `fft_length` should be not less than `frame_length`. Received "
             "fft_length=4, frame_length=8");
  bad_option([] { STFTSpectrogram({.padding = "causal"}); },
             "STFTSpectrogram: Padding is invalid, it should be 'valid', 'same'. Received: "
             "padding=causal");
  bad_option([] { MelSpectrogram({.fft_length = 8, .sequence_length = 9}); },
             "MelSpectrogram: `fft_length` must be greater than or equal to `sequence_length`. "
             "Received: `sequence_length`=9, `fft_length`=8.");
  bad_option([] { MelSpectrogram({.num_mel_bins = 0}); },
             "MelSpectrogram: got sequence_stride=512 and num_mel_bins=0; expected 1 or more");
  bad_input(STFTSpectrogram({.frame_length = 4}), {2, 9}, "expected ndim=3, found ndim=2");
}

TEST(SpectralNormalizationErrorsTest, OptionsAndLayers) {
  bad_option([] { SpectralNormalization(Dense(3), {.power_iterations = 0}); },
             "SpectralNormalization: `power_iterations` should be greater than zero. Received: "
             "`power_iterations=0`");
  bad_input(SpectralNormalization(Flatten()), {2, 3, 4},
            "Flatten object has no attribute 'kernel' nor 'embeddings'");
}

TEST(ReversibleEmbeddingErrorsTest, OptionsAndInputs) {
  bad_option([] { ReversibleEmbedding(0, 3); },
             "ReversibleEmbedding: `input_dim` must be a positive integer. Received: input_dim=0");
  bad_option([] { ReversibleEmbedding(3, 4, {.reverse_dtype = "int32"}); },
             "ReversibleEmbedding: got reverse_dtype='int32'; expected a floating dtype, 'float32' "
             "say");
  const ReversibleEmbedding layer(3, 4);
  expect_error_containing(
      [&] {
        layer(at::full({2, 2}, 3, at::kLong));
      },
      ErrorCode::kOutOfRange, "got tokens from 3 to 3; expected 0 <= token < input_dim = 3");
}

TEST(ConvLSTMErrorsTest, OptionsAndInputs) {
  bad_input(ConvLSTM2D(3, 2), {2, 3, 4, 4}, "expected ndim=5, found ndim=4");
  expect_error_containing(
      [] {
        ConvLSTM1D(3, 2)(keras::Input({4, kNone, 2}));
      },
      ErrorCode::kInvalidArgument,
      "ConvLSTM layers only support static input shapes for the spatial "
      "dimension. Received invalid input shape");
}

TEST(ConvolutionErrorsTest, OptionsThatContradictEachOther) {
  bad_option([] { Conv2D(0, 3); }, "Conv2D: got filters=0; expected a positive integer");
  bad_option(
      [] {
        Conv2D(4, {3, 0});
      },
      "Conv2D: got kernel_size=(3, 0); expected positive integers");
  bad_option([] { Conv1D(4, 3, {.strides = 0}); },
             "Conv1D: got strides=(0,); expected positive integers");
  bad_option([] { Conv2D(4, 3, {.padding = "causal"}); },
             "Conv2D: got padding='causal'; expected 'valid' or 'same'");
  bad_option([] { Conv1D(4, 3, {.padding = "both"}); },
             "Conv1D: got padding='both'; expected 'valid', 'same' or 'causal'");
  bad_option([] { Conv3D(4, 3, {.data_format = "nchw"}); },
             "Conv3D: got data_format='nchw'; expected 'channels_first' or 'channels_last'");
  bad_option([] { Conv2D(4, 3, {.strides = 2, .dilation_rate = 2}); },
             "Conv2D: `strides > 1` not supported in conjunction with `dilation_rate > 1`. "
             "Received: strides=(2, 2) and dilation_rate=(2, 2)");
  bad_option([] { Conv2D(4, 3, {.groups = 3}); },
             "Conv2D: got groups=3, filters=4; expected a positive number of groups that divides "
             "the filters");
  bad_option(
      [] {
        Conv2DTranspose(4, 3, {.strides = {2, 1}, .output_padding = 1});
      },
      "Conv2DTranspose: `output_padding` must be strictly less than `strides` for all "
      "dimensions. At dimension 1, `output_padding` is 1 but `strides` is 1");
  bad_option([] { DepthwiseConv2D(3, {.depth_multiplier = 0}); },
             "DepthwiseConv2D: got depth_multiplier=0; expected a positive integer");
}

TEST(ConvolutionErrorsTest, ShapesThatDoNotFitNameTheLayer) {
  const Conv2D conv(4, 3, {.name = "first"});
  bad_input(conv, {1, 5, 3}, "layer \"first\" is incompatible with the layer");
  bad_input(conv, {1, 2, 5, 3},
            "layer 'first': Computed output size would be zero or negative. Received: "
            "inputs.shape=(1, 2, 5, 3), kernel_size=(3, 3)");
  bad_input(conv, {1, 5, 5, 5, 3}, "layer 'first': got input of shape (1, 5, 5, 5, 3); expected 4");
  conv(at::zeros({1, 5, 5, 3}));
  bad_input(conv, {1, 5, 5, 2},
            "layer \"first\" is incompatible with the layer: expected axis -1 of input shape to "
            "have value 3, but received input with shape (1, 5, 5, 2)");
  bad_input(conv, {1, 5, 2, 3}, "layer 'first': Computed output size would be zero or negative");
  bad_input(Conv1D(4, 3, {.groups = 2, .name = "grouped"}), {1, 5, 3},
            "layer 'grouped': The number of input channels must be evenly divisible by the number "
            "of groups. Received groups=2, but the input has 3 channels");
  expect_error_containing(
      [] {
        Conv2D(4, 3, {.name = "open"})->ensure_built({{kNone, 5, 5, kNone}});
      },
      ErrorCode::kInvalidArgument,
      "layer 'open': got input of shape (None, 5, 5, None); the number");
  bad_input(Conv2DTranspose(4, 3, {.name = "up"}), {1, 5, 5, 5, 3}, "layer 'up'");
  bad_input(SeparableConv2D(4, 3, {.name = "apart"}), {1, 2, 5, 3}, "layer 'apart'");
}

TEST(PoolingErrorsTest, NameLayerAndSizes) {
  bad_option([] { MaxPooling2D(0); },
             "MaxPooling2D: got pool_size=(0, 0); expected positive integers");
  bad_option([] { AveragePooling1D(2, {.padding = "causal"}); },
             "AveragePooling1D: got padding='causal'; expected 'valid' or 'same'");
  bad_input(MaxPooling2D(3, {.name = "pool"}), {1, 2, 5, 3},
            "layer 'pool': Computed output size would be zero or negative. Received: "
            "inputs.shape=(1, 2, 5, 3), pool_size=(3, 3), strides=(3, 3)");
  bad_input(MaxPooling2D(2, {.name = "pool"}), {1, 5, 3}, "layer \"pool\" is incompatible");
  bad_input(GlobalAveragePooling2D({.name = "mean"}), {1, 5}, "layer \"mean\" is incompatible");
}

TEST(ReshapingErrorsTest, NameLayerAndSizes) {
  bad_option(
      [] {
        Reshape({-1, -1});
      },
      "Reshape: got target_shape=(-1, -1); expected sizes, one of them at most -1");
  bad_input(Reshape({7}, {.name = "flat"}), {2, 3, 2},
            "layer 'flat': The total size of the tensor must be unchanged. Received: "
            "input_shape=(3, 2), target_shape=(7,)");
  bad_input(Reshape({4, -1}, {.name = "rows"}), {2, 3, 2},
            "layer 'rows': The total size of the tensor must be unchanged, however, the input size "
            "cannot by divided by the specified dimensions in target_shape");
  bad_option([] { Permute({2, 2}); }, "Permute: got dims=(2, 2); expected each of 1 to 2 once");
  bad_option([] { RepeatVector(0); }, "RepeatVector: got n=0; expected a positive integer");
  bad_option([] { ZeroPadding2D(-1); },
             "ZeroPadding2D: got padding of -1; expected integers that are not negative");
  expect_error([] { ZeroPadding3D({1, 2}); }, "[layers] edges: got 2 dimensions; expected 3");
  EXPECT_EQ(Cropping2D({{6, 2}, {0, 0}})->output_shapes({{1, 9, 5, 3}})[0],
            keras::Shape({1, 1, 5, 3}));
  EXPECT_EQ(ZeroPadding2D({1, 2})->output_shapes({{1, 9, 5, 3}})[0], keras::Shape({1, 11, 9, 3}));
  bad_input(Cropping1D({2, 1}, {.name = "cut"}), {1, 3, 2},
            "layer 'cut': Values in `cropping` argument should be smaller");
  bad_input(Cropping2D(2, {.name = "cut"}), {1, 5, 4, 2},
            "Received: input_shape=(1, 5, 4, 2), cropping=[[2,2],[2,2]]");
  bad_option([] { UpSampling2D(2, {.interpolation = "cubic"}); },
             "UpSampling2D: got interpolation='cubic'; expected 'nearest', 'bilinear', 'bicubic', "
             "'lanczos3' or 'lanczos5'");
}

TEST(ActivationErrorsTest, NameOptionAndValue) {
  bad_option([] { ReLU({.max_value = -1.0}); },
             "ReLU: got max_value=-1; expected a number that is not negative");
  bad_option([] { LeakyReLU({.negative_slope = -1}); },
             "LeakyReLU: got negative_slope=-1; expected a number that is not negative");
  bad_option([] { Softmax({.axis = {}}); }, "Softmax: got no axis; expected at least one");
  bad_input(PReLU({.shared_axes = {{3}}, .name = "slopes"}), {2, 3, 4},
            "layer 'slopes': got shared axis 3 for input of shape (2, 3, 4); expected 1 to 2");
}

TEST(RegularizationErrorsTest, NameOptionAndValue) {
  bad_option([] { Dropout(1.5); }, "Dropout: got rate=1.5; expected a number between 0 and 1");
  bad_option([] { GaussianDropout(1); },
             "GaussianDropout: got rate=1; expected a number from 0 to less than 1");
  bad_option([] { GaussianNoise(-1); },
             "GaussianNoise: got stddev=-1; expected a number between 0 and 1");
  bad_option(
      [] {
        Dropout(0.5, {.noise_shape = {{std::nullopt, 0}}});
      },
      "Dropout: got a size of 0 in noise_shape; expected positive integers, or nullopt for "
      "the input's size");
  const Dropout dropout(0.5, {.noise_shape = {{2, 1}}, .name = "drop"});
  expect_error_containing(
      [&] {
        dropout.call({at::zeros({2, 3, 4})}, {.training = true});
      },
      ErrorCode::kInvalidArgument,
      "layer 'drop': got noise_shape with 2 sizes for input of shape (2, 3, 4)");
}

TEST(PreprocessingErrorsTest, NameOptionAndValue) {
  bad_option([] { Resizing(0, 3); },
             "Resizing: got (height, width)=(0, 3); expected positive integers");
  bad_option([] { Resizing(2, 2, {.crop_to_aspect_ratio = true, .pad_to_aspect_ratio = true}); },
             "Resizing: Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be true");
  bad_option([] { Resizing(2, 2, {.fill_mode = "wrap"}); },
             "Resizing: got fill_mode='wrap'; only 'constant' is supported");
  bad_input(Resizing(2, 2, {.name = "small"}), {5, 5},
            "layer 'small': Expected image tensor to have rank 3 (single image) or 4 (batch of "
            "images). Received: data.shape=(5, 5)");
  bad_option([] { RandomFlip("diagonal"); },
             "RandomFlip: got mode='diagonal'; expected 'horizontal', 'vertical' or "
             "'horizontal_and_vertical'");
  bad_option([] { RandomRotation(1.5); },
             "RandomRotation: The `factor` argument should be a number (or a list of two numbers) "
             "in the range [-1, 1]. Received: factor=1.5");
  bad_option([] { RandomRotation(0.5, {.fill_mode = "edge"}); },
             "RandomRotation: got fill_mode='edge'; expected 'reflect', 'wrap', 'constant' or "
             "'nearest'");
  bad_option([] { RandomZoom(0.5, {.interpolation = "cubic"}); },
             "RandomZoom: got interpolation='cubic'; expected 'nearest' or 'bilinear'");
  bad_option(
      [] {
        RandomZoom({-1, 0.5});
      },
      "RandomZoom: got a factor of [-1.0,0.5]; expected a number (or two) in the range (-1, "
      "1]");
  bad_option([] { Normalization({.mean = 1.0}); },
             "Normalization: When setting values directly, both `mean` and `variance` must be set. "
             "Received: mean=1.0 and variance=null");
  bad_input(Normalization({.axis = {3}, .name = "norm"}), {2, 3},
            "layer 'norm': All `axis` values must be in the range [-ndim, ndim)");
  bad_input(
      Rescaling(Numbers{1.0, 2.0}, {.name = "scale"}), {2, 3},
      "layer 'scale': got 2 numbers for input of shape (2, 3); expected one for each channel");
}

// From a file, say: refused before libtorch asks the system for it.
TEST(WeightErrorsTest, MoreThanTheMachineHasMemoryNamesLayerAndShape) {
  constexpr int64_t kHuge = 3'333'333'333'333'333;
  expect_error_containing(
      [&] {
        Dense(kHuge, {.name = "d"})(at::zeros({1, 1}));
      },
      ErrorCode::kResourceExhausted,
      "layer 'd': weight 'kernel' would have shape (1, 3333333333333333)");
  const strata::detail::ScopedMemoryLimit limit(100);
  EXPECT_EQ(Dense(5)(at::zeros({1, 4})).numel(), 5);
  expect_error_containing(
      [&] {
        Dense(5)(at::zeros({1, 6}));
      },
      ErrorCode::kResourceExhausted, "expected no more than the 100 bytes of memory");
}

TEST(LambdaTest, ComputesAndCannotBeSaved) {
  const Lambda lambda([](const at::Tensor& x) { return x.flatten(1) * 2; }, {.name = "twice"});
  EXPECT_EQ(lambda(at::ones({2, 3, 4})).sum().item<double>(), 48);
  EXPECT_EQ(lambda->output_shapes({{kNone, 3, 4}}), std::vector<keras::Shape>({{kNone, 12}}));
  const Lambda said([](const at::Tensor& x) { return x; }, {.output_shape = {{7}}});
  EXPECT_EQ(said->output_shapes({{kNone, 3}}), std::vector<keras::Shape>({{kNone, 7}}));
  const Lambda mode(
      [](const at::Tensor& x, const keras::Call& call) { return call.training ? x + 1 : x; });
  EXPECT_EQ(mode.call({at::zeros({1, 1})}, {.training = true})[0].item<double>(), 1);
  expect_error_containing([&] { keras::to_config(lambda); }, ErrorCode::kUnimplemented,
                          "layer 'twice': a Lambda's function cannot be written to a file");
}

}  // namespace
}  // namespace strata::layers
