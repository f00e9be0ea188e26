#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/estimator/features.h"

namespace strata {

/// A model that export_saved_model wrote, ready to predict without the program that trained it. A
/// handle; copies share their weights.
/// Threads: any, at once. Source: tf.saved_model.load, tf.contrib.predictor.
class STRATA_API Predictor {
 public:
  class Impl;
  explicit Predictor(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  /// A feature that the model takes.
  struct FeatureSpec {
    bool is_text = false;
    bool is_sparse = false;
    at::ScalarType dtype = at::kFloat;  ///< Of numbers.
    std::vector<int64_t> shape = {};    ///< Of a row; of a text without its bytes.
  };
  struct Signature {
    std::string method;                          ///< "predict", "classify" or "regress"
    std::map<std::string, std::string> outputs;  ///< Names of predictions by those of outputs.
  };

  const std::map<std::string, FeatureSpec>& features() const;
  const std::map<std::string, Signature>& signatures() const;
  int64_t global_step() const;  ///< Of the checkpoint that was exported.

  /// The outputs of a signature for a batch of features, of any number of rows. Features that the
  /// model does not take are ignored; numbers are cast to its dtypes.
  /// @throws Error  kNotFound: no such signature. kInvalidArgument: a feature is missing, has other
  ///   sizes, or more entries a row than were exported. kOutOfRange: an id beyond a column's
  ///   num_buckets.
  estimator::Features operator()(const estimator::Features& features,
                                 const std::string& signature = "serving_default") const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Loads the folder that export_saved_model has returned.
/// @throws Error  kNotFound: there is no model.json. kDataLoss, kUnimplemented: damaged, or of a
///   later version; as graph::load_graph.
STRATA_API Predictor load_predictor(const std::string& folder);

}  // namespace strata
