#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/json.h"
#include "strata/estimator/feature_column.h"
#include "strata/estimator/predictor.h"

namespace strata::estimator::detail {

inline constexpr const char* kModelFile = "model.json";
inline constexpr const char* kGraphFile = "model.graph";

/// What model.json says.
struct SavedModel {
  /// A column whose ids are an input of the graph.
  struct Ids {
    feature_column::FeatureColumn column;
    int64_t most = 0;  ///< Entries of a row.
  };
  /// An output of the graph.
  struct Prediction {
    std::string name;
    bool is_text = false;
    bool is_sparse = false;
  };

  int64_t global_step = 0;
  /// Those that are numbers are the graph's first inputs, in this order, which is that of their
  /// names; behind them come `ids`.
  std::map<std::string, Predictor::FeatureSpec> features = {};
  std::vector<Ids> ids = {};
  std::vector<Prediction> predictions = {};
  std::map<std::string, Predictor::Signature> signatures = {};
};

Json to_json(const SavedModel& model);
/// @throws Error kDataLoss, kUnimplemented (a later version); `path` is for messages.
SavedModel saved_model_from(const std::string& text, const std::string& path);

}  // namespace strata::estimator::detail
