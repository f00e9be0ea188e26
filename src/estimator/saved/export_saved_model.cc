#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/join.h"
#include "estimator/columns/column_impl.h"
#include "estimator/columns/exported_ids.h"
#include "estimator/estimator_impl.h"
#include "estimator/export_folder.h"
#include "estimator/inputs/example_features.h"
#include "estimator/saved/model_json.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/estimator/saved_model.h"
#include "strata/graph/inference.h"
#include "strata/graph/saved_graph.h"

namespace strata::estimator {
namespace {

using detail::SavedModel;
using feature_column::detail::ExportedIds;

/// Rows of the inputs with which the graph is recorded; it takes any number of them.
constexpr int64_t kRecordedRows = 2;
constexpr const char* kDefaultSignature = "serving_default";

Predictor::FeatureSpec spec_of(const Feature& feature) {
  std::vector<int64_t> shape = feature.values.sizes().vec();
  shape.erase(shape.begin());
  if (feature.is_text) shape.pop_back();
  return {.is_text = feature.is_text,
          .is_sparse = feature.is_sparse,
          .dtype = feature.values.scalar_type(),
          .shape = std::move(shape)};
}

void check_features(const Features& features) {
  STRATA_CHECK(!features.empty(), kInvalidArgument, "[estimator] export_saved_model: got no ",
               "features; expected a batch as the model will get it");
  const int64_t rows = features.begin()->second.values.size(0);
  for (const auto& [name, feature] : features) {
    STRATA_CHECK(feature.values.dim() >= (feature.is_text ? 2 : 1) && rows > 0 &&
                     feature.values.size(0) == rows,
                 kInvalidArgument, "[estimator] export_saved_model: got the feature '", name,
                 "' of shape ", feature.values.sizes(), "; expected [", std::max<int64_t>(rows, 1),
                 ", ...], as many rows as '", features.begin()->first, "' has, and one at least");
  }
}

/// A signature without outputs has all predictions.
std::map<std::string, Predictor::Signature> signatures_of(const EstimatorSpec& spec) {
  std::map<std::string, ExportOutput> given = spec.export_outputs;
  if (given.empty()) given[kDefaultSignature] = {};
  if (given.size() == 1) given.emplace(kDefaultSignature, given.begin()->second);
  STRATA_CHECK(given.contains(kDefaultSignature), kInvalidArgument,
               "[estimator] export_saved_model: got the export_outputs ",
               join(given, [](const auto& each) { return each.first; }),
               "; one of several must be called ", kDefaultSignature);
  std::map<std::string, Predictor::Signature> signatures;
  for (const auto& [name, output] : given) {
    Predictor::Signature signature{.method = output.method, .outputs = output.outputs};
    if (signature.outputs.empty()) {
      for (const auto& [key, value] : spec.predictions) signature.outputs.emplace(key, key);
    }
    for (const auto& [shown, key] : signature.outputs) {
      STRATA_CHECK(spec.predictions.contains(key), kInvalidArgument,
                   "[estimator] export_saved_model: the signature '", name, "' has the output '",
                   shown, "' of the prediction '", key, "'; expected one of ",
                   join(spec.predictions, [](const auto& each) { return each.first; }));
    }
    signatures.emplace(name, std::move(signature));
  }
  return signatures;
}

Features predictions_of(detail::BuiltModel& model, const Features& numbers,
                        const Features& features) {
  try {
    return model.predict(numbers).predictions;
  } catch (const std::out_of_range&) {  // of Features::at
    std::vector<std::string> texts;
    for (const auto& [name, feature] : features) {
      if (feature.is_text) texts.push_back(name);
    }
    throw Error(
        ErrorCode::kInvalidArgument,
        str_cat("[estimator] export_saved_model: the model_fn reads a feature that a graph ",
                "cannot have; texts (", join(texts), ") are read by columns alone"));
  }
}

/// The model's predictions as a graph: of numbers, then of columns' ids.
graph::InferenceGraph record(detail::BuiltModel& model, ExportedIds& ids,
                             const Features& features) {
  std::vector<at::Tensor> inputs;
  for (const auto& [name, feature] : features) {
    if (feature.is_text) continue;
    std::vector<int64_t> sizes = feature.values.sizes().vec();
    sizes.front() = kRecordedRows;
    inputs.push_back(at::empty(sizes, feature.values.options()));
  }
  for (const ExportedIds::Column& column : ids.columns()) {
    inputs.push_back(at::empty({kRecordedRows, column.most}, at::kLong));
  }
  STRATA_CHECK(!inputs.empty(), kInvalidArgument, "[estimator] export_saved_model: got texts ",
               "alone, which no column of the model reads");
  const auto predict = [&](const std::vector<at::Tensor>& given) {
    Features numbers;  // A model that reads texts by itself does not find them.
    auto next = given.begin();
    for (const auto& [name, feature] : features) {
      if (feature.is_text) continue;
      numbers.emplace(name, Feature{.values = *next++, .is_sparse = feature.is_sparse});
    }
    if (next != given.end()) ids.give({next, given.end()});
    std::vector<at::Tensor> outputs;
    for (const auto& [name, prediction] : predictions_of(model, numbers, features)) {
      outputs.push_back(prediction.values);
    }
    return outputs;
  };
  return graph::trace_inference(predict, inputs, {.name = "predict", .any_batch = true});
}

}  // namespace

std::string export_saved_model(Estimator& estimator, const std::string& export_dir_base,
                               const Features& features, const ExportSavedModelOptions& options) {
  check_features(features);
  const Estimator::Impl& impl = *estimator.impl();
  const auto checkpoint = impl.checkpoint_to_read(options.checkpoint_path);
  STRATA_CHECK(checkpoint || !impl.options.warm_start_from.checkpoint.empty(), kNotFound,
               "[estimator] export_saved_model: could not find a trained model in model_dir: ",
               impl.model_dir);
  std::vector<FieldName> names;
  data::Example first;
  for (const auto& [name, feature] : features) {
    names.push_back({.name = name, .is_text = feature.is_text, .is_sparse = feature.is_sparse});
    first.fields.push_back(feature.values);
  }
  const detail::BatchFields fields(std::move(names), {});
  SavedModel saved{.global_step = checkpoint ? detail::step_of_checkpoint(*checkpoint) : 0};
  ExportedIds ids;
  detail::BuiltModel model(impl.model_fn, default_strategy(), impl.options.config,
                           impl.options.params, Mode::kPredict, saved.global_step, fields, first);
  impl.restore(model, checkpoint);
  const graph::InferenceGraph graph = record(model, ids, features);

  for (const auto& [name, feature] : features) saved.features.emplace(name, spec_of(feature));
  for (const ExportedIds::Column& each : ids.columns()) {
    saved.ids.push_back({.column = feature_column::FeatureColumn(each.column), .most = each.most});
  }
  for (const auto& [name, prediction] : model.spec().predictions) {
    saved.predictions.push_back(
        {.name = name, .is_text = prediction.is_text, .is_sparse = prediction.is_sparse});
  }
  saved.signatures = signatures_of(model.spec());
  const std::string text = detail::to_json(saved).dump(2);
  return detail::write_export(
      export_dir_base, "export_saved_model", [&](const std::string& folder) {
        graph::save_graph(graph, join_path(folder, detail::kGraphFile));
        detail::write_text_file(join_path(folder, detail::kModelFile), text);
      });
}

ExportFn saved_model_export_fn(Features features) {
  return [features = std::move(features)](Estimator& estimator, const std::string& export_path,
                                          const std::string& checkpoint_path) {
    return export_saved_model(estimator, export_path, features,
                              {.checkpoint_path = checkpoint_path});
  };
}

Features serving_features(const ExampleSpec& spec, int64_t most_entries) {
  STRATA_CHECK(most_entries > 0, kInvalidArgument,
               "[estimator] serving_features: got most_entries ", most_entries,
               "; expected 1 or more");
  Features features;
  for (const auto& [name, given] : spec) {
    const detail::ExampleField field = detail::field_of(name, given);
    std::vector<int64_t> sizes = {1};
    if (field.is_sparse) {
      sizes.push_back(most_entries);
    } else {
      sizes.insert(sizes.end(), field.shape.begin(), field.shape.end());
    }
    at::Tensor values;
    if (field.type == data::FeatureType::kBytes) {
      sizes.push_back(1);  // an empty text
      values = at::zeros(sizes, at::kByte);
    } else if (field.is_sparse) {
      const bool is_integer = field.type == data::FeatureType::kInt64;
      values = at::full(sizes, detail::padding_of(field.type), is_integer ? at::kLong : at::kFloat);
    } else {
      values = at::zeros(sizes, field.type == data::FeatureType::kInt64 ? at::kLong : at::kFloat);
    }
    features.emplace(name, Feature{.values = std::move(values),
                                   .is_text = field.type == data::FeatureType::kBytes,
                                   .is_sparse = field.is_sparse});
  }
  return features;
}

}  // namespace strata::estimator
