#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/estimator/features.h"
#include "strata/strategies/distributed_dataset.h"

namespace strata::estimator {

/// The labels of a batch: one, or several by name (for a head each).
class STRATA_API Labels {
 public:
  Labels() = default;
  explicit Labels(Features by_name) : by_name_(std::move(by_name)) {}

  bool empty() const { return by_name_.empty(); }
  const Features& by_name() const { return by_name_; }
  /// The only one's values; undefined without labels.
  /// @throws Error kInvalidArgument: there are several; names them.
  const at::Tensor& value() const;
  operator const at::Tensor&() const { return value(); }  // NOLINT: labels are used like a tensor

 private:
  Features by_name_;
};

/// The name of a field of a dataset's elements, and the kind of it (Feature).
struct FieldName {
  std::string name;
  bool is_text = false;
  bool is_sparse = false;
};

/// What an input_fn gives: a dataset of batches, whose first fields are the features and whose
/// others are the labels. A dataset alone has one feature, `x`, and a label, if its elements have a
/// second field.
struct Input {
  Input(data::Dataset dataset)  // NOLINT: an input_fn may return a dataset
      : dataset(std::move(dataset)) {}
  Input(data::Dataset dataset, std::vector<FieldName> features,
        std::vector<FieldName> labels = {{"label"}})
      : dataset(std::move(dataset)), features(std::move(features)), labels(std::move(labels)) {}

  data::Dataset dataset;
  std::vector<FieldName> features = {{"x"}};
  /// Elements may lack labels, all of them at once.
  std::vector<FieldName> labels = {{"label"}};
};

/// Makes the input, once for each call of train, evaluate and predict, in each process. A batch of
/// it is one replica's: N replicas take N batches a step.
/// Source: the input_fn of tf.estimator with its `input_context`.
using InputFn = std::function<Input(const InputContext&)>;

}  // namespace strata::estimator
