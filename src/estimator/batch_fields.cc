#include "estimator/batch_fields.h"

#include "core/join.h"
#include "strata/core/error.h"

namespace strata::estimator {
namespace {

Feature named_feature(const FieldName& field, const at::Tensor& values) {
  return {.values = values, .is_text = field.is_text, .is_sparse = field.is_sparse};
}

}  // namespace

const at::Tensor& Labels::value() const {
  static const at::Tensor none;
  if (by_name_.empty()) return none;
  STRATA_CHECK(by_name_.size() == 1, kInvalidArgument, "[estimator] Labels: got ", by_name_.size(),
               " labels (", join(by_name_, [](const auto& each) { return each.first; }),
               ") where one is asked for; take each by its name (by_name)");
  return by_name_.begin()->second.values;
}

namespace detail {

void BatchFields::check(size_t fields) const {
  STRATA_CHECK(fields == features_.size() || fields == features_.size() + labels_.size(),
               kInvalidArgument, "[estimator] input_fn: got elements of ", fields,
               " tensors; expected ", features_.size(), " features (",
               join(features_, &FieldName::name), ") and ", labels_.size(), " labels (",
               join(labels_, &FieldName::name), "), or features alone. Return an Input that names ",
               "all fields");
}

Features BatchFields::features(const std::vector<at::Tensor>& fields) const {
  Features features;
  for (size_t i = 0; i < features_.size(); ++i) {
    features.emplace(features_[i].name, named_feature(features_[i], fields.at(i)));
  }
  return features;
}

Labels BatchFields::labels(const std::vector<at::Tensor>& fields) const {
  if (fields.size() == features_.size()) return {};
  Features labels;
  for (size_t i = 0; i < labels_.size(); ++i) {
    labels.emplace(labels_[i].name, named_feature(labels_[i], fields.at(features_.size() + i)));
  }
  return Labels(std::move(labels));
}

}  // namespace detail
}  // namespace strata::estimator
