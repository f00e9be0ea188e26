#include "strata/estimator/predictor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "core/join.h"
#include "estimator/columns/column_impl.h"
#include "estimator/saved/model_json.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/graph/saved_graph.h"

namespace strata {
namespace {

using estimator::Feature;
using estimator::Features;
using estimator::detail::SavedModel;
using feature_column::detail::Entries;
using feature_column::detail::kAbsent;

constexpr std::string_view kWhere = "[predictor] ";

std::vector<int64_t> with_rows(int64_t rows, const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes = {rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

/// `[rows, most]` of `[rows, any]`. @param absent  What fills it, and may be cut off.
at::Tensor with_entries(const std::string& name, const at::Tensor& values, int64_t most,
                        const at::Scalar& absent) {
  if (values.size(1) <= most) {
    return at::constant_pad_nd(values, {0, most - values.size(1)}, absent);
  }
  STRATA_CHECK((values.narrow(1, most, values.size(1) - most) == absent).all().item<bool>(),
               kInvalidArgument, kWhere, "'", name, "' has more than ", most,
               " entries in a row; export the model with an example that has as many");
  return values.narrow(1, 0, most);
}

/// As the graph and the columns take it.
Feature prepared(const std::string& name, const Feature& given,
                 const Predictor::FeatureSpec& spec) {
  STRATA_CHECK(given.is_text == spec.is_text, kInvalidArgument, kWhere, "the feature '", name,
               "' is ", given.is_text ? "text" : "numbers", "; expected ",
               spec.is_text ? "text" : "numbers");
  Feature feature{.values = given.values, .is_text = spec.is_text, .is_sparse = spec.is_sparse};
  if (spec.is_text) return feature;
  feature.values = given.values.to(spec.dtype);
  const int64_t rows = given.values.dim() > 0 ? given.values.size(0) : 0;
  if (spec.is_sparse && spec.shape.size() == 1) {
    const at::Scalar absent = at::isFloatingType(spec.dtype) ? 0 : -1;
    const at::Tensor entries =
        feature.values.dim() == 1 ? feature.values.unsqueeze(1) : feature.values;
    STRATA_CHECK(entries.dim() == 2, kInvalidArgument, kWhere, "the feature '", name,
                 "' has the shape ", given.values.sizes(), "; expected [rows, entries]");
    feature.values = with_entries(name, entries, spec.shape[0], absent);
    return feature;
  }
  const int64_t of_row =
      std::accumulate(spec.shape.begin(), spec.shape.end(), int64_t{1}, std::multiplies<>());
  STRATA_CHECK(feature.values.numel() == rows * of_row, kInvalidArgument, kWhere, "the feature '",
               name, "' has the shape ", given.values.sizes(), "; expected ", of_row,
               " numbers a row");
  feature.values = feature.values.reshape(with_rows(rows, spec.shape)).contiguous();
  return feature;
}

at::Tensor ids_of(const SavedModel::Ids& saved, const Features& features) {
  const std::string& name = saved.column.name();
  const Entries entries = saved.column.impl()->categorical()->entries(features);
  if (entries.may_exceed && entries.ids.numel() > 0) {
    const auto largest = entries.ids.max().item<int64_t>();
    STRATA_CHECK(largest < saved.column.num_buckets(), kOutOfRange, kWhere, "'", name,
                 "': got the id ", largest,
                 "; expected ids below num_buckets = ", saved.column.num_buckets());
  }
  return with_entries(name, entries.ids, saved.most, kAbsent);
}

}  // namespace

class Predictor::Impl {
 public:
  Impl(SavedModel saved, graph::LoadedGraph graph)
      : saved_(std::move(saved)), graph_(std::move(graph)) {}

  const SavedModel& saved() const { return saved_; }

  Features predict(const Features& given, const std::string& name) const {
    const auto signature = saved_.signatures.find(name);
    STRATA_CHECK(signature != saved_.signatures.end(), kNotFound, kWhere, "got the signature '",
                 name, "'; expected one of ",
                 join(saved_.signatures, [](const auto& each) { return each.first; }));
    const Features features = prepare(given);
    std::vector<at::Tensor> inputs;
    for (const auto& [key, feature] : features) {
      if (!feature.is_text) inputs.push_back(feature.values);
    }
    for (const SavedModel::Ids& ids : saved_.ids) inputs.push_back(ids_of(ids, features));
    const std::vector<at::Tensor> predictions = graph_(inputs);
    Features outputs;
    for (const auto& [shown, key] : signature->second.outputs) {
      for (size_t i = 0; i < saved_.predictions.size(); ++i) {
        const SavedModel::Prediction& each = saved_.predictions[i];
        if (each.name != key) continue;
        outputs.emplace(shown, Feature{.values = predictions.at(i),
                                       .is_text = each.is_text,
                                       .is_sparse = each.is_sparse});
      }
    }
    return outputs;
  }

 private:
  Features prepare(const Features& given) const {
    Features features;
    for (const auto& [name, spec] : saved_.features) {
      const auto found = given.find(name);
      STRATA_CHECK(found != given.end(), kInvalidArgument, kWhere, "got no feature '", name,
                   "'; expected ",
                   join(saved_.features, [](const auto& each) { return each.first; }));
      features.emplace(name, prepared(name, found->second, spec));
    }
    const int64_t rows = features.begin()->second.values.size(0);
    for (const auto& [name, feature] : features) {
      STRATA_CHECK(feature.values.size(0) == rows, kInvalidArgument, kWhere, "the feature '", name,
                   "' has ", feature.values.size(0), " rows, and '", features.begin()->first,
                   "' has ", rows);
    }
    return features;
  }

  const SavedModel saved_;
  const graph::LoadedGraph graph_;
};

const std::map<std::string, Predictor::FeatureSpec>& Predictor::features() const {
  return impl_->saved().features;
}
const std::map<std::string, Predictor::Signature>& Predictor::signatures() const {
  return impl_->saved().signatures;
}
int64_t Predictor::global_step() const { return impl_->saved().global_step; }

Features Predictor::operator()(const Features& features, const std::string& signature) const {
  return impl_->predict(features, signature);
}

Predictor load_predictor(const std::string& folder) {
  namespace saved = estimator::detail;
  const std::string path = join_path(folder, saved::kModelFile);
  STRATA_CHECK(file_system_of(path).info(path), kNotFound,
               "[estimator] load_predictor: there is no ", path,
               "; expected the folder that export_saved_model has written");
  SavedModel model = saved::saved_model_from(read_file(path), path);
  const std::string graph_path = join_path(folder, saved::kGraphFile);
  graph::LoadedGraph graph = graph::load_graph(graph_path);
  const auto numbers =
      std::ranges::count_if(model.features, [](const auto& each) { return !each.second.is_text; });
  const graph::Graph& recorded = graph.graph().graph;
  const size_t inputs = static_cast<size_t>(numbers) + model.ids.size();
  STRATA_CHECK(!model.features.empty() && recorded.inputs.size() == inputs &&
                   recorded.outputs.size() == model.predictions.size(),
               kDataLoss, "[estimator] load_predictor: ", graph_path, " has ",
               recorded.inputs.size(), " inputs and ", recorded.outputs.size(), " outputs; ", path,
               " describes ", inputs, " and ", model.predictions.size());
  return Predictor(std::make_shared<const Predictor::Impl>(std::move(model), std::move(graph)));
}

}  // namespace strata
