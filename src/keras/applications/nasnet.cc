#include <optional>

#include "keras/applications/classifier.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/reshaping.h"

namespace strata::applications {
namespace {

using keras::SymbolicTensor;

SymbolicTensor nasnet_norm(const SymbolicTensor& x, const std::string& name) {
  return layers::BatchNormalization({.momentum = 0.9997, .epsilon = 1e-3, .name = name})(x);
}

SymbolicTensor nasnet_relu(const SymbolicTensor& x) { return layers::Activation("relu")(x); }

SymbolicTensor nasnet_pointwise(const SymbolicTensor& x, int64_t filters, const std::string& name) {
  return layers::Conv2D(
      filters, 1,
      {.padding = "same", .use_bias = false, .kernel_initializer = "he_normal", .name = name})(x);
}

SymbolicTensor nasnet_average(const SymbolicTensor& x, const std::string& name) {
  return layers::AveragePooling2D(3, {.strides = 1, .padding = "same", .name = name})(x);
}

SymbolicTensor nasnet_add(const SymbolicTensor& a, const SymbolicTensor& b,
                          const std::string& name) {
  return layers::Add({.name = name})({a, b});
}

/// Twice relu, separable convolution and normalization.
SymbolicTensor nasnet_separable(const SymbolicTensor& input, int64_t filters, int64_t window,
                                int64_t stride, const std::string& id) {
  SymbolicTensor x = nasnet_relu(input);
  if (stride == 2) {
    x = layers::ZeroPadding2D(detail::stride_padding(x, window),
                              {.name = "separable_conv_1_pad_" + id})(x);
  }
  x = layers::SeparableConv2D(filters, window,
                              {.strides = stride,
                               .padding = stride == 2 ? "valid" : "same",
                               .use_bias = false,
                               .name = "separable_conv_1_" + id})(x);
  x = nasnet_relu(nasnet_norm(x, "separable_conv_1_bn_" + id));
  x = layers::SeparableConv2D(
      filters, window, {.padding = "same", .use_bias = false, .name = "separable_conv_2_" + id})(x);
  return nasnet_norm(x, "separable_conv_2_bn_" + id);
}

/// The output of a cell, and its input, which the cell behind the next one reads.
struct NasnetCells {
  SymbolicTensor last;
  std::optional<SymbolicTensor> before;
};

/// Halves the image in two paths, one of them moved by a pixel.
SymbolicTensor nasnet_halved(const SymbolicTensor& input, int64_t filters, const std::string& id) {
  const layers::PoolingOptions<2> pooling = {.strides = 2};
  const auto every_second = [&](const SymbolicTensor& x, const std::string& number) {
    layers::PoolingOptions<2> named = pooling;
    named.name = "adjust_avg_pool_" + number + "_" + id;
    const SymbolicTensor y = layers::AveragePooling2D(1, named)(x);
    return nasnet_pointwise(y, filters / 2, "adjust_conv_" + number + "_" + id);
  };
  const SymbolicTensor x = layers::Activation("relu", {.name = "adjust_relu_1_" + id})(input);
  const SymbolicTensor first = every_second(x, "1");
  SymbolicTensor moved = layers::ZeroPadding2D({{0, 1}, {0, 1}})(x);
  moved = layers::Cropping2D({{1, 0}, {1, 0}})(moved);
  const SymbolicTensor second = every_second(moved, "2");
  return nasnet_norm(layers::Concatenate()({first, second}), "adjust_bn_" + id);
}

/// The input of the cell before, in the shape that this cell needs.
SymbolicTensor nasnet_adjusted(const NasnetCells& cells, int64_t filters, const std::string& id) {
  if (!cells.before) return cells.last;
  const SymbolicTensor& before = *cells.before;
  if (before.shape()[2] != cells.last.shape()[2]) return nasnet_halved(before, filters, id);
  if (before.shape().back() == filters) return before;
  const SymbolicTensor x =
      nasnet_pointwise(nasnet_relu(before), filters, "adjust_conv_projection_" + id);
  return nasnet_norm(x, "adjust_bn_" + id);
}

NasnetCells nasnet_normal(const NasnetCells& cells, int64_t filters, const std::string& id) {
  const auto named = [&](const char* part) { return str_cat("normal_", part, "_", id); };
  const SymbolicTensor p = nasnet_adjusted(cells, filters, id);
  SymbolicTensor h = nasnet_pointwise(nasnet_relu(cells.last), filters, named("conv_1"));
  h = nasnet_norm(h, named("bn_1"));
  const auto separable = [&](const SymbolicTensor& x, int64_t window, const char* part) {
    return nasnet_separable(x, filters, window, 1, named(part));
  };
  const SymbolicTensor left1 = separable(h, 5, "left1");
  const SymbolicTensor x1 = nasnet_add(left1, separable(p, 3, "right1"), named("add_1"));
  const SymbolicTensor left2 = separable(p, 5, "left2");
  const SymbolicTensor x2 = nasnet_add(left2, separable(p, 3, "right2"), named("add_2"));
  const SymbolicTensor x3 = nasnet_add(nasnet_average(h, named("left3")), p, named("add_3"));
  const SymbolicTensor left4 = nasnet_average(p, named("left4"));
  const SymbolicTensor x4 = nasnet_add(left4, nasnet_average(p, named("right4")), named("add_4"));
  const SymbolicTensor x5 = nasnet_add(separable(h, 3, "left5"), h, named("add_5"));
  const SymbolicTensor y = layers::Concatenate({.name = named("concat")})({p, x1, x2, x3, x4, x5});
  return {y, cells.last};
}

/// As the normal cell, but for the image, which it halves.
NasnetCells nasnet_reduction(const NasnetCells& cells, int64_t filters, const std::string& id) {
  const auto named = [&](const char* part) { return str_cat("reduction_", part, "_", id); };
  const SymbolicTensor p = nasnet_adjusted(cells, filters, id);
  SymbolicTensor h = nasnet_pointwise(nasnet_relu(cells.last), filters, named("conv_1"));
  h = nasnet_norm(h, named("bn_1"));
  const SymbolicTensor h3 =
      layers::ZeroPadding2D(detail::stride_padding(h, 3), {.name = named("pad_1")})(h);
  const auto halving = [&](const SymbolicTensor& x, int64_t window, const char* part) {
    return nasnet_separable(x, filters, window, 2, named(part));
  };
  const SymbolicTensor left1 = halving(h, 5, "left1");
  const SymbolicTensor x1 = nasnet_add(left1, halving(p, 7, "right1"), named("add_1"));
  const SymbolicTensor left2 = layers::MaxPooling2D(3, {.strides = 2, .name = named("left2")})(h3);
  const SymbolicTensor x2 = nasnet_add(left2, halving(p, 7, "right2"), named("add_2"));
  const SymbolicTensor left3 =
      layers::AveragePooling2D(3, {.strides = 2, .name = named("left3")})(h3);
  const SymbolicTensor x3 = nasnet_add(left3, halving(p, 5, "right3"), named("add3"));
  const SymbolicTensor x4 = nasnet_add(x2, nasnet_average(x1, named("left4")), "");
  const SymbolicTensor left5 = nasnet_separable(x1, filters, 3, 1, named("left4"));
  const SymbolicTensor right5 =
      layers::MaxPooling2D(3, {.strides = 2, .name = named("right5")})(h3);
  const SymbolicTensor x5 = nasnet_add(left5, right5, named("add4"));
  const SymbolicTensor y = layers::Concatenate({.name = named("concat")})({x2, x3, x4, x5});
  return {y, cells.last};
}

struct NasnetNetwork {
  const char* network;
  const char* name;
  int64_t size;     ///< Of the usual image.
  int64_t filters;  ///< Of the cells in the first of three groups; each has twice the one before.
  int cells;        ///< Normal ones in each group.
  int64_t stem_filters;
  bool skips_reduction;  ///< The cell behind a reduction reads what the reduction's neighbour read.
};

keras::Model nasnet(const NasnetNetwork& of, const Options& options) {
  keras::Shape shape = options.input_shape;
  if (shape.empty()) shape = {of.size, of.size, 3};
  detail::check_input_shape(of.network, shape, 32);
  STRATA_CHECK(shape[0] != keras::kNone && shape[1] != keras::kNone, kInvalidArgument,
               "[applications] ", of.network, ": got input_shape ", keras::to_string(shape),
               "; expected known sizes, on which its cells depend");
  const SymbolicTensor image = keras::Input(shape);
  SymbolicTensor x = layers::Conv2D(
      of.stem_filters, 3,
      {.strides = 2, .use_bias = false, .kernel_initializer = "he_normal", .name = "stem_conv1"})(
      image);
  NasnetCells cells = {nasnet_norm(x, "stem_bn1"), {}};
  cells = nasnet_reduction(cells, of.filters / 4, "stem_1");
  cells = nasnet_reduction(cells, of.filters / 2, "stem_2");
  for (int group = 0; group < 3; ++group) {
    const int64_t filters = of.filters << group;
    if (group > 0) {
      const NasnetCells reduced =
          nasnet_reduction(cells, filters, str_cat("reduce_", group * of.cells));
      cells = {reduced.last, of.skips_reduction ? cells.before : reduced.before};
    }
    for (int i = 0; i < of.cells; ++i) {
      const int number = group * of.cells + i + (group > 0 ? 1 : 0);
      cells = nasnet_normal(cells, filters, std::to_string(number));
    }
  }
  x = nasnet_relu(cells.last);
  return detail::finished(image, detail::end(x, options, "", ""), options, of.name);
}

}  // namespace

keras::Model NASNetMobile(const Options& options) {
  return nasnet({"NASNetMobile", "nasnet_mobile", 224, 44, 4, 32, false}, options);
}
keras::Model NASNetLarge(const Options& options) {
  return nasnet({"NASNetLarge", "nasnet_large", 331, 168, 6, 96, true}, options);
}

}  // namespace strata::applications
