#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/model.h"

/// Well-known networks with Keras's layers, names and defaults, and random weights; `load_weights`
/// reads those of Keras's files. Source: keras.applications 3.15, `weights=None`.
namespace strata::applications {

struct Options {
  bool include_top = true;  ///< Adds the classifier at the end.
  /// Height, width, channels; kNone for sizes that vary. Empty: the usual one (224 x 224 x 3,
  /// InceptionV3 299 x 299 x 3); without the top any height and width.
  keras::Shape input_shape = {};
  std::string pooling = {};  ///< Without the top: "avg", "max", or empty.
  int64_t classes = 1000;
  std::string classifier_activation = "softmax";  ///< "linear" for logits.
  std::string name = {};                          ///< Empty: Keras's.
};

// @throws Error kInvalidArgument: an input that is too small, or not of three sizes.
STRATA_API keras::Model ResNet50(const Options& options = {});
STRATA_API keras::Model InceptionV3(const Options& options = {});
/// @param alpha  Multiplies the number of filters.
STRATA_API keras::Model MobileNetV2(const Options& options = {}, double alpha = 1.0);
STRATA_API keras::Model VGG16(const Options& options = {});

}  // namespace strata::applications
