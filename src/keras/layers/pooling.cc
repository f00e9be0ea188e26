#include "strata/keras/layers/pooling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool1d.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/adaptive_max_pool1d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/adaptive_max_pool3d.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/where.h>

#include <numeric>

#include "keras/layers/image_layout.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/windows.h"

namespace strata::layers {
namespace {

enum class Pool { kMax, kAverage };

std::string class_name_of(const char* before, Pool pool, size_t n) {
  return std::string(before) + (pool == Pool::kMax ? "Max" : "Average") + "Pooling" +
         std::to_string(n) + "D";
}

template <size_t N>
struct PoolingArguments {
  keras::Sizes<N> pool_size = 2;
  PoolingOptions<N> options = {};
};
template <size_t N>
struct GlobalPoolingArguments {
  GlobalPoolingOptions options = {};
};
template <size_t N>
struct AdaptivePoolingArguments {
  keras::Sizes<N> output_size = 1;
  AdaptivePoolingOptions options = {};
};

template <typename Config, typename Arguments>
requires keras::OfAnyRank<Arguments, PoolingArguments> ||
    keras::OfAnyRank<Arguments, GlobalPoolingArguments> ||
    keras::OfAnyRank<Arguments, AdaptivePoolingArguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.pool_size; }) {
    config("pool_size", layer.pool_size);
    config("padding", options.padding);
    config("strides", options.strides);
  }
  if constexpr (requires { layer.output_size; }) config("output_size", layer.output_size);
  config("data_format", options.data_format);
  if constexpr (requires { options.keepdims; }) config("keepdims", options.keepdims);
}

template <size_t N, Pool kPool>
at::Tensor pool(const at::Tensor& x, const Windows& windows, at::IntArrayRef padding, bool ceil) {
  if constexpr (kPool == Pool::kMax) {
    if constexpr (N == 1) {
      return at::max_pool1d(x, windows.size, windows.strides, padding, windows.dilation, ceil);
    } else if constexpr (N == 2) {
      return at::max_pool2d(x, windows.size, windows.strides, padding, windows.dilation, ceil);
    } else {
      return at::max_pool3d(x, windows.size, windows.strides, padding, windows.dilation, ceil);
    }
  } else if constexpr (N == 1) {
    return at::avg_pool1d(x, windows.size, windows.strides, padding, ceil, false);
  } else if constexpr (N == 2) {
    return at::avg_pool2d(x, windows.size, windows.strides, padding, ceil, false);
  } else {
    return at::avg_pool3d(x, windows.size, windows.strides, padding, ceil, false);
  }
}

template <size_t N, Pool kPool>
class PoolingImpl final : public MovingLayerImpl {
 public:
  explicit PoolingImpl(const PoolingArguments<N>& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    PoolingOptions<N>& options = arguments_.options;
    if (!options.strides) options.strides = arguments_.pool_size;
    check_positive(class_name_, "pool_size", arguments_.pool_size.values);
    check_positive(class_name_, "strides", options.strides->values);
    check_padding(class_name_, options.padding, false);
    check_data_format(class_name_, options.data_format);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  Windows windows() const {
    return {arguments_.pool_size.values, arguments_.options.strides->values, ones_.values,
            arguments_.options.padding};
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    compute_output_shape(x.sizes().vec());  // complains
    const std::string& format = arguments_.options.data_format;
    const Windows windows = this->windows();
    const at::Tensor input = planes(x, format);
    // libtorch pads both ends alike, and leaves what it pads out of maxima and means. One more
    // behind: with strides, windows may reach over the end; without, all are computed from one
    // element earlier, and the first is left out.
    std::array<int64_t, N> padding{}, skip{};
    bool ceil = false;
    for (size_t i = 0; i < N; ++i) {
      const auto [before, after] = windows.pad(i, input.size(static_cast<int64_t>(i) + 2));
      padding[i] = before;
      if (before == after) continue;
      if (windows.strides[i] > 1) {
        ceil = true;
      } else {
        padding[i] = after;
        skip[i] = 1;
      }
    }
    at::Tensor y = pool<N, kPool>(input, windows, padding, ceil);
    for (size_t i = 0; i < N; ++i) {
      const auto dim = static_cast<int64_t>(i) + 2;
      if (skip[i] != 0) y = y.narrow(dim, 1, y.size(dim) - 1);
    }
    return user_shape(y, format);
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    const std::string& format = arguments_.options.data_format;
    return windowed_shape(name(), "pool_size", windows(), input, format,
                          input[static_cast<size_t>(channel_axis(input.size(), format))]);
  }

  const std::string class_name_ = class_name_of("", kPool, N);
  const keras::Sizes<N> ones_ = 1;
  PoolingArguments<N> arguments_;
};

template <size_t N, Pool kPool>
class GlobalPoolingImpl final : public MovingLayerImpl {
 public:
  explicit GlobalPoolingImpl(const GlobalPoolingArguments<N>& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_data_format(class_name_, arguments.options.data_format);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call& call) override {
    const auto first = static_cast<int64_t>(first_spatial_axis(arguments_.options.data_format));
    std::array<int64_t, N> axes{};
    std::iota(axes.begin(), axes.end(), first);
    const bool keepdims = arguments_.options.keepdims;
    if constexpr (kPool == Pool::kMax) return at::amax(x, axes, keepdims);
    const at::Tensor mask = N == 1 ? call.mask() : at::Tensor();
    if (!mask.defined()) return at::mean(x, axes, keepdims);
    const at::Tensor steps = mask.unsqueeze(first == 1 ? 2 : 1);
    return at::where(steps, x, 0.0).sum(axes, keepdims) /
           steps.to(x.scalar_type()).sum(axes, keepdims);
  }
  keras::Tensors compute_masks(const keras::Tensors&, const keras::Call&) const override {
    return {};
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    const std::string& format = arguments_.options.data_format;
    if (!arguments_.options.keepdims) {
      return {input[0], input[static_cast<size_t>(channel_axis(input.size(), format))]};
    }
    keras::Shape output = input;
    for (size_t i = 0; i < N; ++i) output[first_spatial_axis(format) + i] = 1;
    return output;
  }

  const std::string class_name_ = class_name_of("Global", kPool, N);
  GlobalPoolingArguments<N> arguments_;
};

template <size_t N, Pool kPool>
class AdaptivePoolingImpl final : public MovingLayerImpl {
 public:
  explicit AdaptivePoolingImpl(const AdaptivePoolingArguments<N>& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_positive(class_name_, "output_size", arguments_.output_size.values);
    check_data_format(class_name_, arguments.options.data_format);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const std::string& format = arguments_.options.data_format;
    const at::Tensor input = planes(x, format);
    const at::IntArrayRef size = arguments_.output_size.values;
    return user_shape(pooled(input, size), format);
  }

  static at::Tensor pooled(const at::Tensor& x, at::IntArrayRef size) {
    if constexpr (kPool == Pool::kMax) {
      if constexpr (N == 1) return std::get<0>(at::adaptive_max_pool1d(x, size));
      if constexpr (N == 2) return std::get<0>(at::adaptive_max_pool2d(x, size));
      if constexpr (N == 3) return std::get<0>(at::adaptive_max_pool3d(x, size));
    } else {
      if constexpr (N == 1) return at::adaptive_avg_pool1d(x, size);
      if constexpr (N == 2) return at::adaptive_avg_pool2d(x, size);
      if constexpr (N == 3) return at::adaptive_avg_pool3d(x, size);
    }
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    for (size_t i = 0; i < N; ++i) {
      output[first_spatial_axis(arguments_.options.data_format) + i] = arguments_.output_size[i];
    }
    return output;
  }

  const std::string class_name_ = class_name_of("Adaptive", kPool, N);
  AdaptivePoolingArguments<N> arguments_;
};

template <size_t N, Pool kPool>
auto make_pooling(keras::Sizes<N> pool_size, const PoolingOptions<N>& options) {
  return std::make_shared<PoolingImpl<N, kPool>>(PoolingArguments<N>{pool_size, options});
}
template <size_t N, Pool kPool>
auto make_global(const GlobalPoolingOptions& options) {
  return std::make_shared<GlobalPoolingImpl<N, kPool>>(GlobalPoolingArguments<N>{options});
}
template <size_t N, Pool kPool>
auto make_adaptive(keras::Sizes<N> output_size, const AdaptivePoolingOptions& options) {
  return std::make_shared<AdaptivePoolingImpl<N, kPool>>(
      AdaptivePoolingArguments<N>{output_size, options});
}

}  // namespace

MaxPooling1D::MaxPooling1D(keras::Sizes<1> pool_size, const PoolingOptions<1>& options)
    : Layer(make_pooling<1, Pool::kMax>(pool_size, options)) {}
MaxPooling2D::MaxPooling2D(keras::Sizes<2> pool_size, const PoolingOptions<2>& options)
    : Layer(make_pooling<2, Pool::kMax>(pool_size, options)) {}
MaxPooling3D::MaxPooling3D(keras::Sizes<3> pool_size, const PoolingOptions<3>& options)
    : Layer(make_pooling<3, Pool::kMax>(pool_size, options)) {}
AveragePooling1D::AveragePooling1D(keras::Sizes<1> pool_size, const PoolingOptions<1>& options)
    : Layer(make_pooling<1, Pool::kAverage>(pool_size, options)) {}
AveragePooling2D::AveragePooling2D(keras::Sizes<2> pool_size, const PoolingOptions<2>& options)
    : Layer(make_pooling<2, Pool::kAverage>(pool_size, options)) {}
AveragePooling3D::AveragePooling3D(keras::Sizes<3> pool_size, const PoolingOptions<3>& options)
    : Layer(make_pooling<3, Pool::kAverage>(pool_size, options)) {}

GlobalMaxPooling1D::GlobalMaxPooling1D(const GlobalPoolingOptions& options)
    : Layer(make_global<1, Pool::kMax>(options)) {}
GlobalMaxPooling2D::GlobalMaxPooling2D(const GlobalPoolingOptions& options)
    : Layer(make_global<2, Pool::kMax>(options)) {}
GlobalMaxPooling3D::GlobalMaxPooling3D(const GlobalPoolingOptions& options)
    : Layer(make_global<3, Pool::kMax>(options)) {}
GlobalAveragePooling1D::GlobalAveragePooling1D(const GlobalPoolingOptions& options)
    : Layer(make_global<1, Pool::kAverage>(options)) {}
GlobalAveragePooling2D::GlobalAveragePooling2D(const GlobalPoolingOptions& options)
    : Layer(make_global<2, Pool::kAverage>(options)) {}
GlobalAveragePooling3D::GlobalAveragePooling3D(const GlobalPoolingOptions& options)
    : Layer(make_global<3, Pool::kAverage>(options)) {}

AdaptiveMaxPooling1D::AdaptiveMaxPooling1D(keras::Sizes<1> output_size,
                                           const AdaptivePoolingOptions& options)
    : Layer(make_adaptive<1, Pool::kMax>(output_size, options)) {}
AdaptiveMaxPooling2D::AdaptiveMaxPooling2D(keras::Sizes<2> output_size,
                                           const AdaptivePoolingOptions& options)
    : Layer(make_adaptive<2, Pool::kMax>(output_size, options)) {}
AdaptiveMaxPooling3D::AdaptiveMaxPooling3D(keras::Sizes<3> output_size,
                                           const AdaptivePoolingOptions& options)
    : Layer(make_adaptive<3, Pool::kMax>(output_size, options)) {}
AdaptiveAveragePooling1D::AdaptiveAveragePooling1D(keras::Sizes<1> output_size,
                                                   const AdaptivePoolingOptions& options)
    : Layer(make_adaptive<1, Pool::kAverage>(output_size, options)) {}
AdaptiveAveragePooling2D::AdaptiveAveragePooling2D(keras::Sizes<2> output_size,
                                                   const AdaptivePoolingOptions& options)
    : Layer(make_adaptive<2, Pool::kAverage>(output_size, options)) {}
AdaptiveAveragePooling3D::AdaptiveAveragePooling3D(keras::Sizes<3> output_size,
                                                   const AdaptivePoolingOptions& options)
    : Layer(make_adaptive<3, Pool::kAverage>(output_size, options)) {}

namespace {

template <size_t N, Pool kPool>
void add_classes(std::vector<keras::LayerClass>& classes) {
  using Plain = PoolingImpl<N, kPool>;
  using Global = GlobalPoolingImpl<N, kPool>;
  using Adaptive = AdaptivePoolingImpl<N, kPool>;
  const auto add = [&](const char* before, auto make) {
    classes.push_back({class_name_of(before, kPool, N), make});
  };
  add("", [](const Json& config) {
    return keras::make_from_config<Plain>(config, PoolingArguments<N>{}, "Pooling");
  });
  add("Global", [](const Json& config) {
    return keras::make_from_config<Global>(config, GlobalPoolingArguments<N>{}, "GlobalPooling");
  });
  add("Adaptive", [](const Json& config) {
    return keras::make_from_config<Adaptive>(config, AdaptivePoolingArguments<N>{},
                                             "AdaptivePooling");
  });
}

}  // namespace
}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> pooling_layers() {
  using namespace layers;  // NOLINT
  std::vector<LayerClass> classes;
  add_classes<1, Pool::kMax>(classes);
  add_classes<2, Pool::kMax>(classes);
  add_classes<3, Pool::kMax>(classes);
  add_classes<1, Pool::kAverage>(classes);
  add_classes<2, Pool::kAverage>(classes);
  add_classes<3, Pool::kAverage>(classes);
  return classes;
}

}  // namespace strata::keras
