#include "strata/keras/layers/preprocessing.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "keras/layers/elementwise.h"
#include "keras/layers/layer_class.h"

namespace strata::layers {

Json to_config(const Numbers& numbers) {
  return numbers.single ? Json(numbers.values.at(0)) : keras::to_config(numbers.values);
}

void from_config(const Json& json, Numbers& numbers) {
  if (json.is_number()) {
    numbers = json.as_double();
    return;
  }
  std::vector<double> values;
  keras::from_config(json, values);
  numbers = std::move(values);
}

namespace {

/// Keras writes a list; its constructor takes a number too.
struct AxisList {
  std::vector<int64_t> values;
};
Json to_config(const AxisList& axes) { return keras::to_config(axes.values); }
void from_config(const Json& json, AxisList& axes) {
  if (json.is_null()) {
    axes.values.clear();
  } else if (json.is_int()) {
    axes.values = {json.as_int()};
  } else {
    keras::from_config(json, axes.values);
  }
}

/// As `Numbers`, which has no value of its own.
struct MaybeNumbers {
  std::optional<Numbers> value;
};
Json to_config(const MaybeNumbers& numbers) {
  return numbers.value ? to_config(*numbers.value) : Json();
}
void from_config(const Json& json, MaybeNumbers& numbers) {
  numbers.value.reset();
  if (json.is_null()) return;
  Numbers value = 0.0;
  from_config(json, value);
  numbers.value = std::move(value);
}

struct RescalingArguments {
  Numbers scale = 1.0;
  RescalingOptions options = {};
};
struct NormalizationArguments {
  AxisList axis = {{-1}};
  MaybeNumbers mean = {};
  MaybeNumbers variance = {};
  NormalizationOptions options = {};
};

template <typename Config, keras::OneOf<RescalingArguments, NormalizationArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.scale; }) {
    config("scale", layer.scale);
    config("offset", options.offset);
  }
  if constexpr (requires { layer.mean; }) {
    config("axis", layer.axis);
    config("invert", options.invert);
    config("mean", layer.mean);
    config("variance", layer.variance);
  }
}

/// A scalar, or what is broadcast along the last dimension.
at::Tensor as_tensor(const Numbers& numbers, const at::Tensor& like) {
  const at::Tensor values = at::tensor(numbers.values, at::kDouble).to(like.options());
  return numbers.single ? values.squeeze(0) : values;
}

class RescalingImpl final : public ElementwiseImpl {
 public:
  explicit RescalingImpl(const RescalingArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(!arguments.scale.values.empty() && !arguments.options.offset.values.empty(),
                 kInvalidArgument,
                 "[layers] Rescaling: got no number in a list; expected one for "
                 "each channel");
  }
  std::string_view class_name() const override { return "Rescaling"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const at::Tensor y = x.to(dtype().compute_dtype());
    const Numbers& scale = arguments_.scale;
    const Numbers& offset = arguments_.options.offset;
    if (scale.single && offset.single) {
      const at::Tensor scaled = y * scale.values[0];
      return offset.values[0] == 0 ? scaled : scaled + offset.values[0];
    }
    for (const Numbers* numbers : {&scale, &offset}) {
      const auto count = static_cast<int64_t>(numbers->values.size());
      STRATA_CHECK(count == 1 || count == y.size(-1), kInvalidArgument, "[keras] layer '", name(),
                   "': got ", count, " numbers for input of shape ",
                   keras::to_string(x.sizes().vec()), "; expected one for each channel");
    }
    return y * as_tensor(scale, y) + as_tensor(offset, y);
  }

  RescalingArguments arguments_;
};

/// Mean and biased variance of batches, merged one by one.
struct Moments {
  at::Tensor mean;
  at::Tensor variance;
  double count = 0;

  void add(const at::Tensor& batch, at::IntArrayRef axes, double batch_count) {
    if (batch_count == 0) return;
    at::Tensor batch_mean = batch, batch_variance = at::zeros({}, batch.options());
    if (!axes.empty()) std::tie(batch_variance, batch_mean) = at::var_mean(batch, axes, false);
    if (count == 0) {
      mean = batch_mean;
      variance = batch_variance.expand_as(batch_mean);
      count = batch_count;
      return;
    }
    const double share = batch_count / (count + batch_count);
    const at::Tensor merged = mean * (1 - share) + batch_mean * share;
    variance = (variance + (mean - merged).square()) * (1 - share) +
               (batch_variance + (batch_mean - merged).square()) * share;
    mean = merged;
    count += batch_count;
  }
};

class NormalizationImpl final : public ElementwiseImpl {
 public:
  explicit NormalizationImpl(const NormalizationArguments& arguments)
      : ElementwiseImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const auto& mean = arguments_.mean.value;
    const auto& variance = arguments_.variance.value;
    STRATA_CHECK(mean.has_value() == variance.has_value(), kInvalidArgument,
                 "[layers] Normalization: When setting values directly, both `mean` and `variance` "
                 "must be set. Received: mean=",
                 keras::to_config(mean ? Json(to_config(*mean)) : Json()).dump(), " and variance=",
                 keras::to_config(variance ? Json(to_config(*variance)) : Json()).dump());
    STRATA_CHECK(!mean || (mean->single == variance->single &&
                           mean->values.size() == variance->values.size()),
                 kInvalidArgument, "[layers] Normalization: got mean of ",
                 mean ? mean->values.size() : 0, " numbers and variance of ",
                 variance ? variance->values.size() : 0, "; expected the same shape");
    STRATA_CHECK(!mean || mean->single || !arguments_.axis.values.empty(), kInvalidArgument,
                 "[layers] Normalization: got a list of means, and no axis they belong to");
  }
  std::string_view class_name() const override { return "Normalization"; }

  void adapt(const keras::Shape& shape, const std::function<void(Moments&)>& read) {
    STRATA_CHECK(!arguments_.mean.value, kFailedPrecondition, "[keras] layer '", name(),
                 "': adapt() on a layer whose mean and variance were given");
    ensure_built({shape});
    Moments moments;
    const at::NoGradGuard no_grad;
    read(moments);
    STRATA_CHECK(moments.count > 0, kInvalidArgument, "[keras] layer '", name(),
                 "': adapt() received no rows; expected at least one");
    mean_->assign(moments.mean.to(mean_->dtype()));
    variance_->assign(moments.variance.to(variance_->dtype()));
  }

  void add(Moments& moments, const at::Tensor& batch) const {
    STRATA_CHECK(static_cast<size_t>(batch.dim()) == broadcast_.size(), kInvalidArgument,
                 "[keras] layer '", name(), "': adapt() got a batch of shape ",
                 keras::to_string(batch.sizes().vec()), "; expected ", broadcast_.size(),
                 " dimensions");
    double count = 1;
    std::vector<int64_t> reduced;
    for (int64_t d = 0; d < batch.dim(); ++d) {
      const int64_t kept = broadcast_[static_cast<size_t>(d)];
      if (std::find(keep_.begin(), keep_.end(), d) == keep_.end()) {
        reduced.push_back(d);
        count *= static_cast<double>(batch.size(d));
      } else {
        STRATA_CHECK(batch.size(d) == kept, kInvalidArgument, "[keras] layer '", name(),
                     "': adapt() got a batch of shape ", keras::to_string(batch.sizes().vec()),
                     "; the layer was built with size ", kept, " along axis ", d);
      }
    }
    moments.add(batch.to(at::kDouble), reduced, count);
  }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  void build(const keras::Shape& input) override {
    const auto ndim = static_cast<int64_t>(input.size());
    keep_.clear();
    for (const int64_t axis : arguments_.axis.values) {
      STRATA_CHECK(axis >= -ndim && axis < ndim, kInvalidArgument, "[keras] layer '", name(),
                   "': All `axis` values must be in the range [-ndim, ndim). Received inputs with "
                   "ndim=",
                   ndim, ", while axis=", to_config(arguments_.axis).dump());
      keep_.push_back(axis < 0 ? axis + ndim : axis);
    }
    std::sort(keep_.begin(), keep_.end());
    broadcast_.assign(input.size(), 1);
    keras::Shape shape;
    for (const int64_t axis : keep_) {
      const int64_t size = input[static_cast<size_t>(axis)];
      STRATA_CHECK(size != keras::kNone, kInvalidArgument, "[keras] layer '", name(),
                   "': All `axis` values to be kept must have a known shape. Received axis=",
                   to_config(arguments_.axis).dump(), ", inputs.shape=", keras::to_string(input),
                   ", with unknown axis at index ", axis);
      shape.push_back(size);
      broadcast_[static_cast<size_t>(axis)] = size;
    }
    if (const auto& mean = arguments_.mean.value; mean && !mean->single) {
      const auto count = static_cast<int64_t>(mean->values.size());
      STRATA_CHECK(count == shape.back() || count == 1, kInvalidArgument, "[keras] layer '", name(),
                   "': got ", count, " means for inputs.shape=", keras::to_string(input));
      given_.assign(input.size(), 1);
      given_[static_cast<size_t>(keep_.back())] = count;
    }
    if (arguments_.mean.value) return;
    const auto weight = [&](const char* what, const keras::Shape& of, const char* initializer,
                            std::optional<at::ScalarType> dtype) {
      return add_weight(what, of,
                        {.initializer = initializer,
                         .trainable = false,
                         .aggregation = VariableAggregation::kOnlyFirstReplica,
                         .dtype = dtype});
    };
    mean_ = weight("mean", shape, "zeros", {});
    variance_ = weight("variance", shape, "ones", {});
    weight("count", {}, "zeros", at::kLong);
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const at::Tensor input = x.to(dtype().compute_dtype());
    at::Tensor mean, variance;
    if (const auto& given = arguments_.mean.value) {
      mean = as_tensor(*given, input);
      variance = as_tensor(*arguments_.variance.value, input);
      if (!given->single) {
        mean = mean.view(given_);
        variance = variance.view(given_);
      }
    } else {
      mean = cast(mean_->value(), input).view(broadcast_);
      variance = cast(variance_->value(), input).view(broadcast_);
    }
    const at::Tensor deviation = variance.sqrt().clamp_min(1e-7);
    return arguments_.options.invert ? mean + input * deviation : (input - mean) / deviation;
  }

  NormalizationArguments arguments_;
  std::vector<int64_t> keep_;
  std::vector<int64_t> broadcast_;
  std::vector<int64_t> given_;
  std::optional<Variable> mean_;
  std::optional<Variable> variance_;
};

NormalizationImpl& impl_of(const keras::Layer& layer) {
  return static_cast<NormalizationImpl&>(*layer);
}

}  // namespace

Rescaling::Rescaling(Numbers scale, const RescalingOptions& options)
    : Layer(std::make_shared<RescalingImpl>(RescalingArguments{std::move(scale), options})) {}

Normalization::Normalization(const NormalizationOptions& options)
    : Layer(std::make_shared<NormalizationImpl>(
          NormalizationArguments{{options.axis}, {options.mean}, {options.variance}, options})) {}

void Normalization::adapt(const at::Tensor& data) {
  NormalizationImpl& impl = impl_of(*this);
  impl.adapt(data.sizes().vec(), [&](Moments& moments) { impl.add(moments, data); });
}

void Normalization::adapt(const data::Dataset& dataset) {
  NormalizationImpl& impl = impl_of(*this);
  const std::optional<data::Example> first = dataset.iterator(0).next();
  STRATA_CHECK(first.has_value(), kInvalidArgument, "[keras] layer '", name(),
               "': adapt() received an empty dataset; expected at least one batch");
  const bool rows = first->x().dim() < 2;
  const data::Dataset batches = rows ? dataset.batch(128) : dataset;
  const at::Tensor example = rows ? first->x().unsqueeze(0) : first->x();
  impl.adapt(example.sizes().vec(), [&](Moments& moments) {
    data::Iterator iterator = batches.iterator(0);
    while (const std::optional<data::Example> batch = iterator.next())
      impl.add(moments, batch->x());
  });
}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> preprocessing_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Rescaling", RescalingImpl, RescalingArguments),
          STRATA_LAYER_CLASS("Normalization", NormalizationImpl, NormalizationArguments)};
}

}  // namespace strata::keras
