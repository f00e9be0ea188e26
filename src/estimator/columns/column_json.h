#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/json.h"
#include "strata/estimator/feature_column.h"

namespace strata::feature_column::detail {

/// Makes the column again that ColumnImpl::describe has described, with equal ids.
/// @throws Error kDataLoss: no such description.
FeatureColumn column_from_json(const Json& json);

/// A vocabulary in which a value may come twice, as in a file; the first place counts.
FeatureColumn vocabulary_column_of(std::string key, const std::vector<std::string>& vocabulary,
                                   const VocabularyOptions& options);
FeatureColumn vocabulary_column_of(std::string key, const std::vector<int64_t>& vocabulary,
                                   const VocabularyOptions& options);

}  // namespace strata::feature_column::detail
