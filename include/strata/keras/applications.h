#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/model.h"

/// Well-known networks with Keras's layers, names and defaults, and random weights or those of a
/// file. Images are `[batch, height, width, channels]`.
/// Source: keras.applications 3.15.
namespace strata::applications {

struct Options {
  bool include_top = true;  ///< Adds the classifier at the end.
  /// Height, width, channels; kNone for sizes that vary. Empty: the usual one of the network;
  /// without the top any height and width.
  keras::Shape input_shape = {};
  std::string pooling = {};  ///< Without the top: "avg", "max", or empty.
  int64_t classes = 1000;
  std::string classifier_activation = "softmax";  ///< "linear" for logits.
  std::string name = {};                          ///< Empty: Keras's.
  /// A file that Model::load_weights reads, such as those of ImageNet that Keras downloads to
  /// ~/.keras/models; empty: random weights. Nothing is downloaded.
  std::string weights = {};
};

// The networks take what `preprocess_input` returns, or pixels, 0 to 255, where they scale them.
// @throws Error kInvalidArgument: an input that is too small, or not of three sizes; a pooling that
//         there is not; with weights and the top, an activation other than softmax and linear.
//         Errors of load_weights.

STRATA_API keras::Model ResNet50(const Options& options = {});
STRATA_API keras::Model ResNet101(const Options& options = {});
STRATA_API keras::Model ResNet152(const Options& options = {});
STRATA_API keras::Model ResNet50V2(const Options& options = {});
STRATA_API keras::Model ResNet101V2(const Options& options = {});
STRATA_API keras::Model ResNet152V2(const Options& options = {});

STRATA_API keras::Model VGG16(const Options& options = {});
STRATA_API keras::Model VGG19(const Options& options = {});

STRATA_API keras::Model DenseNet121(const Options& options = {});
STRATA_API keras::Model DenseNet169(const Options& options = {});
STRATA_API keras::Model DenseNet201(const Options& options = {});

/// At least 75 x 75, usually 299 x 299.
STRATA_API keras::Model InceptionV3(const Options& options = {});
STRATA_API keras::Model InceptionResNetV2(const Options& options = {});
/// At least 71 x 71, usually 299 x 299.
STRATA_API keras::Model Xception(const Options& options = {});

struct MobileNetOptions {
  double alpha = 1;              ///< Multiplies the number of filters.
  int64_t depth_multiplier = 1;  ///< Outputs of a depthwise convolution for each channel.
  double dropout = 1e-3;
};
STRATA_API keras::Model MobileNet(const Options& options = {}, const MobileNetOptions& mobile = {});

/// @param alpha  Multiplies the number of filters.
STRATA_API keras::Model MobileNetV2(const Options& options = {}, double alpha = 1.0);

struct MobileNetV3Options {
  double alpha = 1;           ///< Multiplies the number of filters.
  bool minimalistic = false;  ///< Without squeeze-and-excite, hard_silu and 5 x 5 windows.
  double dropout_rate = 0.2;
  bool include_preprocessing = true;  ///< Inputs are pixels; false: -1 to 1.
};
/// The usual input has any height and width, with the top too.
STRATA_API keras::Model MobileNetV3Small(const Options& options = {},
                                         const MobileNetV3Options& mobile = {});
STRATA_API keras::Model MobileNetV3Large(const Options& options = {},
                                         const MobileNetV3Options& mobile = {});

/// Inputs are pixels. Keras's `weights="imagenet"` puts a Rescaling by 1 / sqrt([0.229, 0.224,
/// 0.225]) behind the normalization, which `weights=PATH` has neither there nor here.
STRATA_API keras::Model EfficientNetB0(const Options& options = {});
STRATA_API keras::Model EfficientNetB1(const Options& options = {});
STRATA_API keras::Model EfficientNetB2(const Options& options = {});
STRATA_API keras::Model EfficientNetB3(const Options& options = {});
STRATA_API keras::Model EfficientNetB4(const Options& options = {});
STRATA_API keras::Model EfficientNetB5(const Options& options = {});
STRATA_API keras::Model EfficientNetB6(const Options& options = {});
STRATA_API keras::Model EfficientNetB7(const Options& options = {});

/// @param include_preprocessing  Inputs are pixels; false: -1 to 1.
STRATA_API keras::Model EfficientNetV2B0(const Options& options = {},
                                         bool include_preprocessing = true);
STRATA_API keras::Model EfficientNetV2B1(const Options& options = {},
                                         bool include_preprocessing = true);
STRATA_API keras::Model EfficientNetV2B2(const Options& options = {},
                                         bool include_preprocessing = true);
STRATA_API keras::Model EfficientNetV2B3(const Options& options = {},
                                         bool include_preprocessing = true);
STRATA_API keras::Model EfficientNetV2S(const Options& options = {},
                                        bool include_preprocessing = true);
STRATA_API keras::Model EfficientNetV2M(const Options& options = {},
                                        bool include_preprocessing = true);
STRATA_API keras::Model EfficientNetV2L(const Options& options = {},
                                        bool include_preprocessing = true);

/// @param include_preprocessing  Inputs of three channels are pixels; false: they are normalized.
STRATA_API keras::Model ConvNeXtTiny(const Options& options = {},
                                     bool include_preprocessing = true);
STRATA_API keras::Model ConvNeXtSmall(const Options& options = {},
                                      bool include_preprocessing = true);
STRATA_API keras::Model ConvNeXtBase(const Options& options = {},
                                     bool include_preprocessing = true);
STRATA_API keras::Model ConvNeXtLarge(const Options& options = {},
                                      bool include_preprocessing = true);
STRATA_API keras::Model ConvNeXtXLarge(const Options& options = {},
                                       bool include_preprocessing = true);

/// Height and width must be known, usually 224 x 224 (mobile) and 331 x 331 (large), also without
/// the top.
STRATA_API keras::Model NASNetMobile(const Options& options = {});
STRATA_API keras::Model NASNetLarge(const Options& options = {});

/// What Keras's module of the network does with pixels: scales them to -1 to 1 ("tf"), normalizes
/// them by ImageNet's channels ("torch"), subtracts ImageNet's means from blue, green and red
/// ("caffe"), or nothing where the network has layers for it.
/// @param network  The name of one of the functions above: "ResNet50".
/// @param images  `[..., channels]` of RGB, 0 to 255; whole numbers become float32.
/// @return A new tensor, or `images` itself.
/// @throws Error kInvalidArgument: no such network (lists them); other than three channels where
///         each has its own mean.
STRATA_API at::Tensor preprocess_input(const std::string& network, const at::Tensor& images);

struct Prediction {
  std::string class_name;   ///< WordNet's, "n02113799"
  std::string description;  ///< "standard_poodle"
  double score;
};

/// The best classes of each row of `predictions`, best first.
/// @param predictions  `[batch, classes]`.
/// @param class_index  A file {"0": ["n01440764", "tench"], ...}, as Keras's
///                     imagenet_class_index.json.
/// @throws Error kInvalidArgument: another number of classes than the file has. kDataLoss: no such
///         file's contents. Errors of read_file.
STRATA_API std::vector<std::vector<Prediction>> decode_predictions(const at::Tensor& predictions,
                                                                   const std::string& class_index,
                                                                   size_t top = 5);

}  // namespace strata::applications
