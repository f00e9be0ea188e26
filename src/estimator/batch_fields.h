#pragma once

#include <vector>

#include "strata/data/example.h"
#include "strata/estimator/input.h"

namespace strata::estimator::detail {

/// Which field of a batch is what.
class BatchFields {
 public:
  BatchFields(std::vector<FieldName> features, std::vector<FieldName> labels)
      : features_(std::move(features)), labels_(std::move(labels)) {}

  /// @throws Error kInvalidArgument: another number of fields.
  void check(size_t fields) const;
  Features features(const std::vector<at::Tensor>& fields) const;
  Labels labels(const std::vector<at::Tensor>& fields) const;

 private:
  std::vector<FieldName> features_;
  std::vector<FieldName> labels_;
};

}  // namespace strata::estimator::detail
