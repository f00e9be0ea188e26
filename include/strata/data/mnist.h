#pragma once

#include <string>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/data/example.h"

namespace strata::data {

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
