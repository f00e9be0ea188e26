#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/image_distortion.h"
#include "strata/data/image_folder.h"
#include "strata/data/image_ops.h"
#include "strata/data/random_numbers.h"

/// ImageNet, or photographs of one's own, as TFRecord files of tf.train.Examples with the features
/// that Inception's scripts gave them, and the way from there to what a network is trained with.
namespace strata::data {

/// A record: image/encoded, image/class/label, image/class/text, image/filename,
/// image/object/bbox/{ymin,xmin,ymax,xmax}.
struct ImageRecord {
  std::string encoded = {};  ///< A JPEG or PNG file's bytes.
  /// From 0 on. In the file 1 is added: there 0 is what no class is.
  int64_t label = 0;
  std::string text = {};                  ///< The class, in words.
  std::string filename = {};              ///< Where it came from.
  std::vector<RelativeBox> objects = {};  ///< Where they are, if that is known.
};

/// The bytes of a record; with image/height, image/width, image/channels and image/format, too.
/// @throws Error  as image_info.   Source: build_imagenet_data.py of TensorFlow's models.
STRATA_API std::string serialize_image_record(const ImageRecord& record);

/// @throws Error kDataLoss: no tf.train.Example, without image/encoded or image/class/label, or
///   with boxes of unlike numbers of sides.
STRATA_API ImageRecord parse_image_record(std::string_view record);

struct ImageRecordFiles {
  std::string prefix;   ///< "out/train": out/train-00000-of-00016 and so on.
  int64_t shards = 16;  ///< Images are dealt out to them in turn.
  uint64_t seed = 0;    ///< Of the order, in which classes are mixed.
  bool check = true;    ///< Each image is decoded, and one that is damaged is an error.
  /// Called after each image with how many are done, of how many. Empty: not called.
  std::function<void(int64_t done, int64_t all)> progress = {};
};

/// Writes the images of a folder as records; makes the folder of `prefix`. @return the files'
/// paths.
/// @throws Error kInvalidArgument: options, no images. As load_image (the image is named), and as
///   FileSystem's calls.
STRATA_API std::vector<std::string> write_image_records(const ImageFolder& folder,
                                                        const ImageRecordFiles& files);

struct ImageInputOptions {
  int64_t size = 224;  ///< Rows and columns of the result.
  ResizeMethod method = ResizeMethod::kBilinear;
  DistortedBoxOptions box = {};  ///< Training: of the window.
  bool distort_color = false;    ///< Training: `distort_color`.
  /// Decodes at a part of the size where the window is larger than the result; faster, with other
  /// pixels.
  bool decode_smaller = false;
  /// Evaluation: the part of each side that the middle of the image has.
  double central_fraction = 0.875;
};

/// A random window, mirrored with probability 1/2. float32 `[size, size, 3]`, values from -1 to 1.
/// @throws Error as decode_image. Source: Inception's preprocessing, as tf_cnn_benchmarks has it.
STRATA_API at::Tensor training_image(const ImageRecord& record, RandomNumbers& random,
                                     const ImageInputOptions& options = {});

/// The middle. float32 `[size, size, 3]`, values from -1 to 1.
STRATA_API at::Tensor evaluation_image(const ImageRecord& record,
                                       const ImageInputOptions& options = {});

}  // namespace strata::data
