#pragma once

#include <c10/core/Scalar.h>

#include <cstdint>
#include <string>
#include <vector>

#include "strata/data/tf_example.h"

namespace strata::estimator::detail {

/// A feature of Examples that is a field of a table.
struct ExampleField {
  data::FeatureType type;
  std::vector<int64_t> shape;  ///< Of a row; -1: any number.
  bool is_sparse;
};

/// @throws Error kInvalidArgument: a FixedLenSequenceFeature.
ExampleField field_of(const std::string& name, const data::FeatureSpec& spec);

/// Behind the entries of a sparse feature.
at::Scalar padding_of(data::FeatureType type);

}  // namespace strata::estimator::detail
