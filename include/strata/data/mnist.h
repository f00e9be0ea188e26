#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "strata/core/export.h"
#include "strata/core/read_limits.h"
#include "strata/data/dataset.h"
#include "strata/data/example.h"

namespace strata::data {

/// Reads an IDX file, the format of MNIST: two zero bytes, a type code, the number of dimensions,
/// the dimensions as 32-bit big-endian numbers, then the values in C order. Codes: 0x08 uint8, 0x09
/// int8, 0x0B int16, 0x0C int32, 0x0D float32, 0x0E float64; values come in the host's byte order.
/// Gzipped files are detected by their first bytes, not by their name; their checksum is verified.
/// @return `[*dimensions]`, on the CPU.
/// @throws Error as FileSystem::open. kDataLoss: not an IDX file, truncated, bytes left over,
/// damaged gzip. kUnimplemented: gzipped, and strata was built without zlib. Each names file,
/// offset, what was expected and what was found. kResourceExhausted: gzipped, and its values exceed
/// `limits.unpacked_bytes`, or exceed 16 MiB and `limits.expansion` times the file. Threads: any.
/// Source: yann.lecun.com/exdb/mnist.
STRATA_API at::Tensor read_idx_file(const std::string& path, const ReadLimits& limits = {});

/// A set in MNIST's format: 28 x 28 grey images of ten classes.
struct STRATA_API Mnist {
  Example train;  ///< x: uint8 [60000, 28, 28], y: int64 [60000] in 0..9
  Example test;   ///< the same with 10000 rows

  /// One element for each image: x float32 [28, 28] in 0..1, y int64 []. The floats are made at the
  /// call and kept in memory (188 MB for all of train), so that batches stay gathers.
  Dataset train_dataset() const;
  Dataset test_dataset() const;
};

/// Converts uint8 images in field 0 to float32 in 0..1; other fields stay. For `map` after `batch`,
/// if memory matters more than speed.
STRATA_API Example scale_pixels(Example example);

/// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte, each plain or with .gz, from `folder`. By
/// default it is the first of these that exists: $STRATA_DATASETS/mnist, datasets/mnist of strata's
/// source tree, share/strata/datasets/mnist of the virtual environment and of strata's
/// installation.
/// @throws Error kNotFound: lists every folder that was tried; otherwise as read_idx_file, and
/// kDataLoss for files that are IDX but not MNIST's.
STRATA_API Mnist load_mnist(const std::string& folder = "");

/// Reads Fashion-MNIST (Zalando) in the same format: $STRATA_DATASETS/fashion-mnist, or Debian's
/// package dataset-fashion-mnist.
STRATA_API Mnist load_fashion_mnist(const std::string& folder = "");

}  // namespace strata::data
