#include "keras/applications/classifier.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "strata/keras/layers/core.h"
#include "strata/keras/layers/pooling.h"

namespace strata::applications::detail {

void check_input_shape(const char* network, const keras::Shape& shape, int64_t least) {
  STRATA_CHECK(shape.size() == 3, kInvalidArgument, "[applications] ", network,
               ": got input_shape ", keras::to_string(shape),
               "; expected height, width and channels");
  for (size_t i = 0; i < 2; ++i) {
    STRATA_CHECK(shape[i] == keras::kNone || shape[i] >= least, kInvalidArgument, "[applications] ",
                 network, ": got input_shape ", keras::to_string(shape), "; expected at least ",
                 least, " x ", least);
  }
}

keras::Shape input_shape(const char* network, const Options& options, int64_t usual,
                         int64_t least) {
  if (options.input_shape.empty()) {
    if (options.include_top) return {usual, usual, 3};
    return {keras::kNone, keras::kNone, 3};
  }
  const keras::Shape& shape = options.input_shape;
  check_input_shape(network, shape, least);
  const bool known = shape[0] != keras::kNone && shape[1] != keras::kNone;
  STRATA_CHECK(known || !options.include_top, kInvalidArgument, "[applications] ", network,
               ": got input_shape ", keras::to_string(shape),
               "; with include_top all sizes must be known");
  return shape;
}

keras::SymbolicTensor predictions(const keras::SymbolicTensor& x, const Options& options,
                                  const std::string& name) {
  return layers::Dense(options.classes,
                       {.activation = options.classifier_activation, .name = name})(x);
}

keras::SymbolicTensor pooled(const keras::SymbolicTensor& x, const Options& options,
                             const std::string& average_name, const std::string& max_name) {
  if (options.pooling == "avg") return layers::GlobalAveragePooling2D({.name = average_name})(x);
  if (options.pooling == "max") return layers::GlobalMaxPooling2D({.name = max_name})(x);
  STRATA_CHECK(options.pooling.empty(), kInvalidArgument, "[applications] got pooling '",
               options.pooling, "'; expected avg, max or none");
  return x;
}

keras::SymbolicTensor end(const keras::SymbolicTensor& x, const Options& options,
                          const std::string& average_name, const std::string& max_name) {
  if (!options.include_top) return pooled(x, options, average_name, max_name);
  return predictions(layers::GlobalAveragePooling2D({.name = average_name})(x), options);
}

keras::Model finished(const keras::SymbolicTensor& image, const keras::SymbolicTensor& y,
                      const Options& options, const std::string& usual_name) {
  keras::Model model(image, y, options.name.empty() ? usual_name : options.name);
  if (options.weights.empty()) return model;
  STRATA_CHECK(options.weights != "imagenet", kInvalidArgument, "[applications] ", model.name(),
               ": got weights 'imagenet'; expected the path of a file: strata downloads nothing, "
               "Keras's downloads are in ~/.keras/models");
  const std::string& activation = options.classifier_activation;
  STRATA_CHECK(!options.include_top || activation == "softmax" || activation == "linear",
               kInvalidArgument, "[applications] ", model.name(), ": got classifier_activation '",
               activation, "'; expected softmax or linear with weights of a file and the top");
  model.load_weights(options.weights);
  return model;
}

std::string sized_name(const char* family, double alpha, const keras::Shape& shape) {
  std::array<char, 64> name = {};
  std::snprintf(name.data(), name.size(), "%s_%.2f_%s", family, alpha,
                shape[0] == keras::kNone ? "None" : std::to_string(shape[0]).c_str());
  return name.data();
}

int64_t divisible_by_8(double filters) {
  const int64_t nearest = std::max<int64_t>(8, static_cast<int64_t>(filters + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * filters ? nearest + 8 : nearest;
}

layers::Edges<2> stride_padding(const keras::SymbolicTensor& x, int64_t window) {
  const int64_t half = window / 2;
  const int64_t height = x.shape()[1], width = x.shape()[2];
  layers::Edges<2> edges = half;
  if (height == keras::kNone || height % 2 == 0) edges.values[0][0] = half - 1;
  if (height == keras::kNone || width == keras::kNone || width % 2 == 0) {
    edges.values[1][0] = half - 1;
  }
  return edges;
}

}  // namespace strata::applications::detail
