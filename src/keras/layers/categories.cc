#include "strata/keras/layers/categories.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>

#include "keras/layers/category_rows.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {
namespace {

struct CategoryEncodingArguments {
  int64_t num_tokens = 1;
  CategoryEncodingOptions options = {};
};
/// Keras writes null where there are none.
struct Boundaries {
  std::vector<double> values;
};
Json to_config(const Boundaries& boundaries) {
  return boundaries.values.empty() ? Json() : keras::to_config(boundaries.values);
}
void from_config(const Json& json, Boundaries& boundaries) {
  boundaries.values.clear();
  if (!json.is_null()) keras::from_config(json, boundaries.values);
}
struct DiscretizationArguments {
  Boundaries bin_boundaries = {};
  DiscretizationOptions options = {};
};

template <typename Config,
          keras::OneOf<CategoryEncodingArguments, DiscretizationArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.num_tokens; }) {
    config("num_tokens", layer.num_tokens);
  } else {
    config("bin_boundaries", layer.bin_boundaries);
    config("num_bins", options.num_bins);
    config("epsilon", options.epsilon);
  }
  config("output_mode", options.output_mode);
  if constexpr (!requires { layer.num_tokens; }) config.only("sparse", false);
}

class CategoryEncodingImpl final : public keras::LayerImpl {
 public:
  explicit CategoryEncodingImpl(const CategoryEncodingArguments& arguments)
      : LayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    arguments.options.output_mode.check("[layers] CategoryEncoding");
    STRATA_CHECK(arguments.options.output_mode != CategoryMode::kInt, kInvalidArgument,
                 "[layers] CategoryEncoding: got output_mode='int'; expected 'one_hot', "
                 "'multi_hot' or 'count'");
    STRATA_CHECK(arguments.num_tokens >= 1, kInvalidArgument,
                 "[layers] CategoryEncoding: `num_tokens` must be >= 1. Received: num_tokens=",
                 arguments.num_tokens);
  }
  std::string_view class_name() const override { return "CategoryEncoding"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  bool autocast() const override { return false; }
  keras::Tensors call(const keras::Tensors& inputs, const keras::Call&) override {
    const CategoryMode& mode = arguments_.options.output_mode;
    STRATA_CHECK(inputs.size() == 1 || mode == CategoryMode::kCount, kInvalidArgument,
                 "[keras] layer '", name(),
                 "': `count_weights` is not used when `output_mode` is not `'count'`");
    return {category_rows(inputs.at(0), mode, arguments_.num_tokens, dtype().compute_dtype(),
                          inputs.size() > 1 ? inputs[1] : at::Tensor())};
  }

  CategoryEncodingArguments arguments_;
};

// --- Discretization ---

/// Values in rising order, each with a weight: how many numbers it is there for.
struct Summary {
  std::vector<double> values, weights;
};

/// numpy.interp
double interpolated(double at, const std::vector<double>& xs, const std::vector<double>& ys) {
  if (at <= xs.front()) return ys.front();
  if (at >= xs.back()) return ys.back();
  const auto above = static_cast<size_t>(std::ranges::upper_bound(xs, at) - xs.begin());
  const double part = (at - xs[above - 1]) / (xs[above] - xs[above - 1]);
  return ys[above - 1] + part * (ys[above] - ys[above - 1]);
}

Summary summary_of(const at::Tensor& data, double epsilon) {
  const at::Tensor sorted =
      std::get<0>(data.detach().cpu().to(at::kFloat).flatten().sort()).to(at::kDouble).contiguous();
  const std::span<const double> values(sorted.const_data_ptr<double>(),
                                       static_cast<size_t>(sorted.numel()));
  const double step = std::max(static_cast<double>(values.size()) * epsilon, 1.0);
  Summary summary;
  for (auto i = static_cast<size_t>(step - 1); i < values.size(); i += static_cast<size_t>(step)) {
    summary.values.push_back(values[i]);
    summary.weights.push_back(step);
  }
  return summary;
}

/// About 1 / epsilon values.
Summary compressed(const Summary& summary, double epsilon) {
  if (static_cast<double>(summary.values.size()) * epsilon < 1) return summary;
  std::vector<double> sums, shares;
  for (const double weight : summary.weights) {
    sums.push_back((sums.empty() ? 0 : sums.back()) + weight);
  }
  for (const double sum : sums) shares.push_back(sum / sums.back());
  Summary result;
  double before = 0;
  for (int64_t i = 0; static_cast<double>(i) * epsilon < 1; ++i) {
    const double at = epsilon + static_cast<double>(i) * epsilon;
    result.values.push_back(interpolated(at, shares, summary.values));
    const double sum = interpolated(at, shares, sums);
    result.weights.push_back(sum - before);
    before = sum;
  }
  return result;
}

class DiscretizationImpl final : public keras::UnaryLayerImpl {
 public:
  explicit DiscretizationImpl(const DiscretizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)),
        arguments_(arguments),
        given_(!arguments.options.num_bins) {
    const DiscretizationOptions& options = arguments.options;
    options.output_mode.check("[layers] Discretization");
    STRATA_CHECK(options.num_bins || !boundaries().empty(), kInvalidArgument,
                 "[layers] Discretization: You need to set either `num_bins` or `bin_boundaries`.");
    STRATA_CHECK(options.num_bins.value_or(1) > 0, kInvalidArgument,
                 "[layers] Discretization: got num_bins=", options.num_bins.value_or(1),
                 "; expected 1 or more");
    STRATA_CHECK(std::ranges::is_sorted(boundaries()), kInvalidArgument,
                 "[layers] Discretization: got bin_boundaries that fall; expected rising ones");
  }
  std::string_view class_name() const override { return "Discretization"; }

  void adapt(const at::Tensor& data) {
    STRATA_CHECK(!given_, kFailedPrecondition, "[keras] layer '", name(),
                 "': Cannot adapt a Discretization layer that has been initialized with "
                 "`bin_boundaries`, use `num_bins` instead.");
    STRATA_CHECK(data.numel() > 0, kInvalidArgument, "[keras] layer '", name(),
                 "': adapt got no numbers");
    const DiscretizationOptions& options = arguments_.options;
    const Summary summary = compressed(summary_of(data, options.epsilon), options.epsilon);
    std::vector<double>& values = arguments_.bin_boundaries.values;
    values = compressed(summary, 1.0 / static_cast<double>(*options.num_bins)).values;
    values.pop_back();
  }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit(config, arguments_);
    config("sparse", false);
  }
  bool writes_trainable() const override { return false; }
  bool autocast() const override { return false; }
  const std::vector<double>& boundaries() const { return arguments_.bin_boundaries.values; }
  bool whole() const { return arguments_.options.output_mode == CategoryMode::kInt; }
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>&) const override {
    return {whole() ? at::kInt : dtype().compute_dtype()};
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    STRATA_CHECK(!boundaries().empty(), kFailedPrecondition, "[keras] layer '", name(),
                 "': has no boundaries; call adapt(data) first");
    const at::Tensor edges = at::tensor(boundaries(), at::kDouble).to(x.device());
    // A count in place of a search, which TPUs and files do not have; a NaN is behind all edges.
    const at::Tensor below = x.to(at::kDouble).unsqueeze(-1).lt(edges);
    const at::Tensor found = edges.numel() - below.to(at::kInt).sum(-1, false, at::kInt);
    if (whole()) return found;
    return category_rows(found, arguments_.options.output_mode,
                         static_cast<int64_t>(boundaries().size()) + 1, dtype().compute_dtype());
  }

  DiscretizationArguments arguments_;
  const bool given_;
};

}  // namespace

CategoryEncoding::CategoryEncoding(int64_t num_tokens, const CategoryEncodingOptions& options)
    : Layer(
          std::make_shared<CategoryEncodingImpl>(CategoryEncodingArguments{num_tokens, options})) {}

Discretization::Discretization(const DiscretizationOptions& options)
    : Layer(std::make_shared<DiscretizationImpl>(
          DiscretizationArguments{{options.bin_boundaries}, options})) {
  STRATA_CHECK(!options.num_bins || options.bin_boundaries.empty(), kInvalidArgument,
               "[layers] Discretization: Both `num_bins` and `bin_boundaries` should not be set.");
}
void Discretization::adapt(const at::Tensor& data) {
  static_cast<DiscretizationImpl&>(**this).adapt(data);
}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> category_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("CategoryEncoding", CategoryEncodingImpl, CategoryEncodingArguments),
          STRATA_LAYER_CLASS("Discretization", DiscretizationImpl, DiscretizationArguments)};
}

}  // namespace strata::keras
