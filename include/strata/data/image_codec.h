#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "strata/core/export.h"
#include "strata/data/image_box.h"

namespace strata::data {

struct DecodeOptions {
  /// 0: as in the file; 1 grey, 3 RGB, 4 RGB and alpha (PNG only). A CMYK JPEG becomes RGB.
  int channels = 0;

  /// JPEG: decodes at 1/2, 1/4 or 1/8 of the size, several times as fast. The largest reduction
  /// that leaves at least this many rows and columns; 0, 0: full size. For a `resize` that follows.
  int64_t min_height = 0;
  int64_t min_width = 0;

  /// JPEG: decodes this window alone, with the pixels that it has in the whole image; 0 x 0: all of
  /// it. Rows above and below cost little. With `min_height` and `min_width`, which are then the
  /// window's, it shrinks with the image, and its edges are rounded outwards.
  ImageBox window = {};

  /// JPEG: the more exact inverse DCT (INTEGER_ACCURATE); TensorFlow uses INTEGER_FAST by default.
  bool accurate_dct = false;
  /// JPEG: smooth chroma; off is quicker (TensorFlow's fancy_upscaling).
  bool fancy_upsampling = true;
  /// JPEG: whether data that libjpeg decodes with a warning is an error.
  bool strict = false;

  std::string_view name = {};  ///< the file, for errors

  /// Values (height x width x channels) of the whole image, before any reduction; images of this
  /// many or more are refused. Progressive JPEGs and interlaced PNGs keep them all at once, a JPEG
  /// in 2 bytes each.
  int64_t max_values = int64_t{1} << 29;
  /// Values per byte of the file, checked for images of more than 2^26 values, and for progressive
  /// JPEGs that have more than 2^29 in all scans together: a blank page has thousands, and a few
  /// bytes can request gigabytes, or seconds.
  int64_t max_values_per_byte = 10'000;
  /// Progressive JPEG: passes over the image. Each may touch every pixel though it has few bytes;
  /// encoders write about 10.
  int max_scans = 100;
};

/// JPEG and PNG images as uint8 `[height, width, channels]`, decoded straight into the tensor.
/// Pixels equal TensorFlow's. PNGs of 16 bits lose the lower 8, palettes become RGB (A).
/// @throws Error kDataLoss: truncated, damaged or another format; names `options.name` and the
/// offset. kResourceExhausted: more values, scans or memory than the options allow, or too little
/// memory. kInvalidArgument: options. kUnimplemented: strata was built without libjpeg (libpng).
/// PNG: a side has at most a million pixels, and a chunk that is no image data 8 MB.
/// Threads: any.   Source: tf.io.decode_image, decode_jpeg, decode_and_crop_jpeg, decode_png.
STRATA_API at::Tensor decode_image(std::string_view bytes, const DecodeOptions& options = {});
STRATA_API at::Tensor decode_jpeg(std::string_view bytes, const DecodeOptions& options = {});
STRATA_API at::Tensor decode_png(std::string_view bytes, const DecodeOptions& options = {});

/// Reads and decodes a file; its errors name the path. @throws also as FileSystem::open.
STRATA_API at::Tensor load_image(const std::string& path, DecodeOptions options = {});

struct ImageInfo {
  const char* format = "";  ///< "JPEG" or "PNG"
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  ///< of the decoded image if channels = 0
};

/// Reads the header alone. @throws as decode_image.
STRATA_API ImageInfo image_info(std::string_view bytes, std::string_view name = {});

struct JpegOptions {
  int quality = 95;                 ///< 0 to 100
  bool chroma_downsampling = true;  ///< 4:2:0, else 4:4:4
  bool progressive = false;
};

/// @param image  uint8 `[height, width, channels]`: 1 or 3 channels (PNG: 1 to 4).
/// @throws Error kInvalidArgument: anything else; kUnimplemented as decode_image.
/// Source: tf.io.encode_jpeg, encode_png.
STRATA_API std::string encode_jpeg(const at::Tensor& image, const JpegOptions& options = {});
/// @param level  The compression: 0 to 9, -1 is zlib's own.
STRATA_API std::string encode_png(const at::Tensor& image, int level = -1);

}  // namespace strata::data
