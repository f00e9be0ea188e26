#include <array>

#include "keras/applications/classifier.h"
#include "keras/applications/efficientnet_blocks.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/preprocessing.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

struct EfficientStack {
  int64_t window;
  int64_t repeats;
  int64_t filters_in;
  int64_t filters_out;
  int64_t expand_ratio;
  int64_t strides;
};
/// B0's, which the others scale.
constexpr std::array<EfficientStack, 7> kEfficientStacks = {{{3, 1, 32, 16, 1, 1},
                                                             {3, 2, 16, 24, 6, 2},
                                                             {5, 2, 24, 40, 6, 2},
                                                             {3, 3, 40, 80, 6, 2},
                                                             {5, 3, 80, 112, 6, 1},
                                                             {5, 4, 112, 192, 6, 2},
                                                             {3, 1, 192, 320, 6, 1}}};

struct EfficientScale {
  double width;
  double depth;
  int64_t size;  ///< Of the usual image.
  double dropout;
};
constexpr std::array<EfficientScale, 8> kEfficientScales = {{{1.0, 1.0, 224, 0.2},
                                                             {1.0, 1.1, 240, 0.2},
                                                             {1.1, 1.2, 260, 0.3},
                                                             {1.2, 1.4, 300, 0.3},
                                                             {1.4, 1.8, 380, 0.4},
                                                             {1.6, 2.2, 456, 0.4},
                                                             {1.8, 2.6, 528, 0.5},
                                                             {2.0, 3.1, 600, 0.5}}};

keras::Model efficientnet(size_t number, const Options& options) {
  const EfficientScale& scale = kEfficientScales[number];
  const auto scaled = [&](int64_t filters) {
    return detail::divisible_by_8(static_cast<double>(filters) * scale.width);
  };
  int64_t blocks = 0;
  for (const EfficientStack& stack : kEfficientStacks) {
    blocks += detail::efficient_repeats(stack.repeats, scale.depth);
  }
  const std::string network = str_cat("EfficientNetB", number);
  const SymbolicTensor image =
      keras::Input(detail::input_shape(network.c_str(), options, scale.size, 32));
  SymbolicTensor x = layers::Rescaling(1.0 / 255)(image);
  x = layers::Normalization({.axis = {3}})(x);
  x = layers::ZeroPadding2D(detail::stride_padding(x, 3), {.name = "stem_conv_pad"})(x);
  x = detail::efficient_conv(x, scaled(32), "stem_conv",
                             {.window = 3, .strides = 2, .padding = "valid"});
  x = detail::efficient_silu(detail::efficient_norm(x, "stem_bn", detail::kV1Momentum),
                             "stem_activation");
  int64_t done = 0;
  for (size_t s = 0; s < kEfficientStacks.size(); ++s) {
    const EfficientStack& stack = kEfficientStacks[s];
    const int64_t repeats = detail::efficient_repeats(stack.repeats, scale.depth);
    for (int64_t i = 0; i < repeats; ++i, ++done) {
      const double drop_rate = 0.2 * static_cast<double>(done) / static_cast<double>(blocks);
      x = detail::inverted_bottleneck(
          x,
          {.filters_in = scaled(i == 0 ? stack.filters_in : stack.filters_out),
           .filters_out = scaled(stack.filters_out),
           .window = stack.window,
           .strides = i == 0 ? stack.strides : 1,
           .expand_ratio = stack.expand_ratio,
           .drop_rate = drop_rate,
           .name = detail::efficient_name(s, i)},
          /*is_v2=*/false);
    }
  }
  x = detail::efficient_end(x, options, scaled(1280), /*is_v2=*/false, scale.dropout);
  return detail::finished(image, x, options, str_cat("efficientnetb", number));
}

}  // namespace

keras::Model EfficientNetB0(const Options& options) { return efficientnet(0, options); }
keras::Model EfficientNetB1(const Options& options) { return efficientnet(1, options); }
keras::Model EfficientNetB2(const Options& options) { return efficientnet(2, options); }
keras::Model EfficientNetB3(const Options& options) { return efficientnet(3, options); }
keras::Model EfficientNetB4(const Options& options) { return efficientnet(4, options); }
keras::Model EfficientNetB5(const Options& options) { return efficientnet(5, options); }
keras::Model EfficientNetB6(const Options& options) { return efficientnet(6, options); }
keras::Model EfficientNetB7(const Options& options) { return efficientnet(7, options); }

}  // namespace strata::applications
