#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "keras/call_context.h"
#include "keras/layers/layer_axes.h"
#include "keras/layers/layer_class.h"
#include "kernels/batch_norm.h"
#include "runtime/sync_batch_norm_paths.h"
#include "strata/keras/layers/normalization.h"
#include "strata/runtime/replica_context.h"

namespace strata::layers {
namespace {

struct BatchNormalizationArguments {
  BatchNormalizationOptions options = {};
};

template <typename Config, typename Arguments>
void visit_batch_normalization(Config& config, Arguments& arguments) {
  auto& options = arguments.options;
  config("axis", options.axis);
  config("momentum", options.momentum);
  config("epsilon", options.epsilon);
  config("center", options.center);
  config("scale", options.scale);
  config("beta_initializer", options.beta_initializer);
  config("gamma_initializer", options.gamma_initializer);
  config("moving_mean_initializer", options.moving_mean_initializer);
  config("moving_variance_initializer", options.moving_variance_initializer);
  config("beta_regularizer", options.beta_regularizer);
  config("gamma_regularizer", options.gamma_regularizer);
  config("beta_constraint", options.beta_constraint);
  config("gamma_constraint", options.gamma_constraint);
  config("synchronized", options.synchronized);
  config.only("renorm", false);
  config.ignore("renorm_clipping");
  config.ignore("renorm_momentum");
}

void visit(keras::ConfigReader& config, BatchNormalizationArguments& arguments) {
  visit_batch_normalization(config, arguments);
}

/// A tensor as libtorch's kernels want it, `[n, channels, ...]`, and the way back. Never a copy,
/// where the memory is dense: rows of channels become one image in channels-last, NCHW memory under
/// an NHWC shape shows its own order again.
class ChannelsSecond {
 public:
  ChannelsSecond(const at::Tensor& x, int64_t axis) : axis_(axis) {
    rows_ = axis == x.dim() - 1 && x.is_contiguous();
    if (!rows_) {
      view_ = x.movedim(axis, 1);
      return;
    }
    const int64_t channels = x.size(axis);
    shape_ = x.sizes().vec();
    view_ =
        x.view({1, channels == 0 ? 0 : x.numel() / channels, 1, channels}).permute({0, 3, 1, 2});
  }

  const at::Tensor& view() const { return view_; }
  at::Tensor back(const at::Tensor& y) const {
    return rows_ ? y.permute({0, 2, 3, 1}).reshape(shape_) : y.movedim(1, axis_);
  }

 private:
  int64_t axis_;
  bool rows_;
  std::vector<int64_t> shape_;
  at::Tensor view_;
};

struct Normalized {
  at::Tensor output;
  at::Tensor mean;      // undefined: there was nothing to learn from
  at::Tensor variance;  // biased
};

bool has_company(const ReplicaContext* context) {
  return context != nullptr && context->num_replicas_in_sync() > 1;
}

class BatchNormalizationImpl final : public keras::UnaryLayerImpl, public keras::detail::Fusible {
 public:
  explicit BatchNormalizationImpl(const BatchNormalizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {}

  std::string_view class_name() const override { return "BatchNormalization"; }
  keras::detail::FusionRole fusion_role() const override {
    return keras::detail::FusionRole::kNormalization;
  }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit_batch_normalization(config, arguments_);
  }

  void build(const keras::Shape& input) override {
    const BatchNormalizationOptions& options = arguments_.options;
    axis_ = resolve_axis(options.axis, input, name());
    const int64_t channels = input[static_cast<size_t>(axis_)];
    if (options.scale) {
      gamma_ = add_weight("gamma", {channels},
                          {.initializer = options.gamma_initializer,
                           .regularizer = options.gamma_regularizer,
                           .constraint = options.gamma_constraint});
    }
    if (options.center) {
      beta_ = add_weight("beta", {channels},
                         {.initializer = options.beta_initializer,
                          .regularizer = options.beta_regularizer,
                          .constraint = options.beta_constraint});
    }
    moving_mean_ = add_weight("moving_mean", {channels},
                              {.initializer = options.moving_mean_initializer, .trainable = false});
    moving_variance_ =
        add_weight("moving_variance", {channels},
                   {.initializer = options.moving_variance_initializer, .trainable = false});
    set_input_spec(
        {{.ndim = static_cast<int64_t>(input.size()), .axes = {{options.axis, channels}}}});
  }

  at::Tensor call(const at::Tensor& given, const keras::Call& call) override {
    keras::detail::Fusion* const fusion =
        std::exchange(keras::detail::call_context().fusion, nullptr);
    const at::Tensor mask = call.mask();
    STRATA_CHECK(!mask.defined() || mask.dim() == given.dim() - 1, kInvalidArgument,
                 "[keras] Layer \"", name(),
                 "\": The mask provided should be one dimension less than the inputs. Received: "
                 "mask.shape=",
                 mask.defined() ? mask.sizes() : at::IntArrayRef(),
                 ", inputs.shape=", given.sizes());
    const bool half = given.scalar_type() == at::kHalf || given.scalar_type() == at::kBFloat16;
    const at::Tensor x = half ? given.to(at::kFloat) : given;  // they overflow
    const auto [weight, bias] = affine(x);
    at::Tensor y;
    if (!call.training || !trainable()) {
      const ChannelsSecond channels(x, axis_);
      y = channels.back(at::batch_norm(channels.view(), weight, bias, cast(*moving_mean_, x),
                                       cast(*moving_variance_, x), /*training=*/false,
                                       /*momentum=*/0, arguments_.options.epsilon,
                                       /*cudnn_enabled=*/true));
    } else {
      const Normalized result =
          mask.defined() ? by_masked_batch(x, mask, weight, bias)
          : arguments_.options.synchronized && has_company(get_replica_context())
              ? by_global_batch(x, weight, bias)
              : by_batch(x, weight, bias, fusion);
      y = result.output;
      if (result.mean.defined()) move_statistics(result.mean, result.variance);
    }
    return half ? y.to(given.scalar_type()) : y;
  }

  /// Both or none: not every kernel of libtorch takes one alone.
  std::pair<at::Tensor, at::Tensor> affine(const at::Tensor& x) const {
    at::Tensor weight = gamma_ ? cast(*gamma_, x) : at::Tensor();
    at::Tensor bias = beta_ ? cast(*beta_, x) : at::Tensor();
    if (weight.defined() && !bias.defined()) bias = at::zeros_like(weight);
    if (bias.defined() && !weight.defined()) weight = at::ones_like(bias);
    return {weight, bias};
  }

  Normalized by_batch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      keras::detail::Fusion* fusion) const {
    const ChannelsSecond channels(x, axis_);
    const bool with_sum = fusion != nullptr && fusion->beside.defined();
    const at::Tensor beside =
        with_sum ? ChannelsSecond(fusion->beside, axis_).view() : at::Tensor();
    if (const auto own = kernels::batch_norm_of_planes(channels.view(), weight, bias, beside,
                                                       arguments_.options.epsilon,
                                                       /*relu=*/fusion != nullptr)) {
      if (fusion != nullptr) fusion->done = true;
      return {channels.back(own->y), own->mean, own->variance};
    }
    const int64_t count = x.size(axis_) == 0 ? 0 : x.numel() / x.size(axis_);
    // With a momentum of 1 libtorch's moving averages are this batch's statistics.
    const at::Tensor statistics = at::zeros({2, x.size(axis_)}, x.options());
    const at::Tensor mean = statistics[0], variance = statistics[1];
    Normalized result{.output = channels.back(at::batch_norm(
                          channels.view(), weight, bias, mean, variance, /*training=*/true,
                          /*momentum=*/1, arguments_.options.epsilon, /*cudnn_enabled=*/true)),
                      .mean = {},
                      .variance = {}};
    if (count == 0) return result;
    result.mean = mean;
    result.variance =
        count == 1 ? at::zeros_like(variance)
                   : variance * (static_cast<double>(count - 1) / static_cast<double>(count));
    return result;
  }

  Normalized by_global_batch(const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) const {
    const ChannelsSecond channels(x, axis_);
    const auto [output, moments] = strata::detail::sync_batch_norm(
        channels.view(), weight, bias, arguments_.options.epsilon, get_replica_context());
    if (moments.count == 0) return {channels.back(output), {}, {}};
    return {channels.back(output), moments.mean.to(x.options()),
            strata::detail::over_count(moments.m2, moments).to(x.options())};
  }

  /// Keras's formulas, with its small number against empty masks.
  Normalized by_masked_batch(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& weight,
                             const at::Tensor& bias) const {
    constexpr double kTiny = 1e-7;
    const ReplicaContext* context = get_replica_context();
    const bool global = arguments_.options.synchronized && has_company(context);
    std::vector<int64_t> others;
    for (int64_t d = 0; d < x.dim(); ++d) {
      if (d != axis_) others.push_back(d);
    }
    const auto total = [&](const at::Tensor& values) {
      const at::Tensor sum = values.sum(others, /*keepdim=*/true);
      return global ? context->all_reduce(ReduceOp::kSum, sum) : sum;
    };
    const at::Tensor kept = mask.to(at::kBool).unsqueeze(-1).expand_as(x);
    const at::Tensor zero = at::zeros({}, x.options());
    const at::Tensor count = total(kept.to(x.scalar_type()));
    const at::Tensor mean = total(at::where(kept, x, zero)) / (count + kTiny);
    const at::Tensor apart = x - mean;
    const at::Tensor variance = total(at::where(kept, apart, zero).square()) / (count + kTiny);
    at::Tensor y = apart * (variance + arguments_.options.epsilon).rsqrt();
    if (weight.defined()) {
      std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
      shape[static_cast<size_t>(axis_)] = x.size(axis_);
      y = y * weight.reshape(shape) + bias.reshape(shape);
    }
    if (x.numel() == 0 && !global) return {y, {}, {}};
    return {y, mean.detach().flatten(), variance.detach().flatten()};
  }

  void move_statistics(const at::Tensor& mean, const at::Tensor& variance) const {
    const at::NoGradGuard no_grad;
    const double momentum = arguments_.options.momentum;
    const auto move = [&](Variable variable, const at::Tensor& value) {
      const at::Tensor old = variable.value();
      const at::Tensor now = cast(value, old);
      variable.assign(old.is_cpu() ? old * momentum + now * (1 - momentum)
                                   : at::lerp(old, now, 1 - momentum));  // one kernel
    };
    move(*moving_mean_, mean);
    move(*moving_variance_, variance);
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override { return input; }
  bool supports_masking() const override { return true; }

  BatchNormalizationArguments arguments_;
  int64_t axis_ = 0;
  std::optional<Variable> gamma_;
  std::optional<Variable> beta_;
  std::optional<Variable> moving_mean_;
  std::optional<Variable> moving_variance_;
};

}  // namespace

BatchNormalization::BatchNormalization(const BatchNormalizationOptions& options)
    : Layer(std::make_shared<BatchNormalizationImpl>(BatchNormalizationArguments{options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> batch_normalization_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("BatchNormalization", BatchNormalizationImpl,
                             BatchNormalizationArguments)};
}

}  // namespace strata::keras
