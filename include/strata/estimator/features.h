#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "strata/core/export.h"

namespace strata::estimator {

/// One named feature of a batch. Source: the members of the dictionary that an input_fn of
/// tf.estimator gives.
struct Feature {
  /// Numbers: `[rows, ...]`. Text: its UTF-8 bytes, uint8 `[rows, ..., width]`, each padded with
  /// zero bytes to the longest.
  at::Tensor values;
  bool is_text = false;
  /// A row has as many entries as it needs: `[rows, most]`, behind them -1 (integers) or empty
  /// texts; weights: 0. (tf.SparseTensor. Crossed columns take such features before dense ones, as
  /// TensorFlow does.)
  bool is_sparse = false;
};

/// The features of a batch by name.
using Features = std::map<std::string, Feature, std::less<>>;

/// Makes a text feature of one text a row. Cost: copies them.
STRATA_API Feature text_feature(std::span<const std::string> rows);
/// Reads one. @throws Error kInvalidArgument: no text, or no such entry.
STRATA_API std::string text_at(const Feature& feature, int64_t row, int64_t index = 0);

}  // namespace strata::estimator
