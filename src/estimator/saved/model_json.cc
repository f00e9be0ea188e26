#include "estimator/saved/model_json.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "estimator/columns/column_impl.h"
#include "estimator/columns/column_json.h"
#include "strata/core/error.h"

namespace strata::estimator::detail {
namespace {

constexpr int64_t kFormatVersion = 1;

/// Dtypes of features by their names in the file.
constexpr std::array<std::pair<std::string_view, at::ScalarType>, 6> kDtypes = {
    {{"float32", at::kFloat},
     {"float64", at::kDouble},
     {"int32", at::kInt},
     {"int64", at::kLong},
     {"uint8", at::kByte},
     {"bool", at::kBool}}};

std::string name_of(at::ScalarType dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, [](const auto& row) { return row.second; });
  STRATA_CHECK(found != kDtypes.end(), kUnimplemented,
               "[estimator] export_saved_model: got a feature of dtype ", toString(dtype),
               "; expected float32, float64, int32, int64, uint8 or bool");
  return std::string(found->first);
}

at::ScalarType dtype_of(const std::string& name) {
  const auto found = std::ranges::find(kDtypes, name, [](const auto& row) { return row.first; });
  STRATA_CHECK(found != kDtypes.end(), kDataLoss, "[estimator] got a feature of dtype '", name,
               "'; expected float32, float64, int32, int64, uint8 or bool");
  return found->second;
}

Json to_json(const std::string& name, const Predictor::FeatureSpec& feature) {
  Json shape = Json::array();
  for (const int64_t size : feature.shape) shape.push_back(size);
  Json json = Json::object();
  json.set("name", name).set("is_text", feature.is_text).set("is_sparse", feature.is_sparse);
  json.set("dtype", feature.is_text ? "text" : name_of(feature.dtype)).set("shape", shape);
  return json;
}

Predictor::FeatureSpec feature_from(const Json& json) {
  Predictor::FeatureSpec feature{.is_text = json.at("is_text").as_bool(),
                                 .is_sparse = json.at("is_sparse").as_bool()};
  if (!feature.is_text) feature.dtype = dtype_of(json.at("dtype").as_string());
  for (const Json& size : json.at("shape").as_array()) feature.shape.push_back(size.as_int());
  return feature;
}

Json to_json(const Predictor::Signature& signature) {
  Json outputs = Json::object();
  for (const auto& [name, prediction] : signature.outputs) outputs.set(name, prediction);
  Json json = Json::object();
  json.set("method", signature.method).set("outputs", std::move(outputs));
  return json;
}

SavedModel model_from(const Json& json) {
  SavedModel model{.global_step = json.at("global_step").as_int()};
  for (const Json& each : json.at("features").as_array()) {
    model.features.emplace(each.at("name").as_string(), feature_from(each));
  }
  for (const Json& each : json.at("columns").as_array()) {
    model.ids.push_back({.column = feature_column::detail::column_from_json(each.at("column")),
                         .most = each.at("most_entries").as_int()});
  }
  for (const Json& each : json.at("predictions").as_array()) {
    model.predictions.push_back({.name = each.at("name").as_string(),
                                 .is_text = each.at("is_text").as_bool(),
                                 .is_sparse = each.at("is_sparse").as_bool()});
  }
  for (const auto& [name, each] : json.at("signatures").as_object()) {
    Predictor::Signature signature{.method = each.at("method").as_string(), .outputs = {}};
    for (const auto& [output, prediction] : each.at("outputs").as_object()) {
      STRATA_CHECK(std::ranges::find(model.predictions, prediction.as_string(),
                                     &SavedModel::Prediction::name) != model.predictions.end(),
                   kDataLoss, "[estimator] the signature '", name, "' has the output '", output,
                   "' of no prediction");
      signature.outputs.emplace(output, prediction.as_string());
    }
    model.signatures.emplace(name, std::move(signature));
  }
  return model;
}

}  // namespace

Json to_json(const SavedModel& model) {
  Json features = Json::array();
  for (const auto& [name, feature] : model.features) features.push_back(to_json(name, feature));
  Json columns = Json::array();
  for (const SavedModel::Ids& ids : model.ids) {
    Json column = Json::object();
    column.set("column", ids.column.impl()->describe()).set("most_entries", ids.most);
    columns.push_back(std::move(column));
  }
  Json predictions = Json::array();
  for (const SavedModel::Prediction& each : model.predictions) {
    Json prediction = Json::object();
    prediction.set("name", each.name).set("is_text", each.is_text);
    predictions.push_back(prediction.set("is_sparse", each.is_sparse));
  }
  Json signatures = Json::object();
  for (const auto& [name, signature] : model.signatures) signatures.set(name, to_json(signature));
  Json json = Json::object();
  json.set("format", "strata estimator model").set("version", kFormatVersion);
  json.set("global_step", model.global_step).set("features", std::move(features));
  json.set("columns", std::move(columns)).set("predictions", std::move(predictions));
  json.set("signatures", std::move(signatures));
  return json;
}

SavedModel saved_model_from(const std::string& text, const std::string& path) {
  try {
    const Json json = Json::parse(text);
    const int64_t version = json.at("version").as_int();
    STRATA_CHECK(version == kFormatVersion, kUnimplemented, "it has version ", version,
                 "; this program reads version ", kFormatVersion);
    return model_from(json);
  } catch (const Error& error) {
    const ErrorCode code =
        error.code() == ErrorCode::kUnimplemented ? error.code() : ErrorCode::kDataLoss;
    throw Error(code, str_cat("[estimator] load_predictor: ", path, ": ", error.what()));
  }
}

}  // namespace strata::estimator::detail
