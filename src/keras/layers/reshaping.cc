#include "strata/keras/layers/reshaping.h"

#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <numeric>

#include "keras/layers/image_layout.h"
#include "keras/layers/image_resize.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/windows.h"

namespace strata::layers {

template <size_t N>
Json to_config(const Edges<N>& edges) {
  Json json = Json::array();
  for (const auto& [before, after] : edges.values) json.push_back(Json::array({before, after}));
  return json;
}

template <size_t N>
void from_config(const Json& json, Edges<N>& edges) {
  if (json.is_int()) {
    edges = Edges<N>(json.as_int());
    return;
  }
  const Json::Array& each = json.as_array();
  STRATA_CHECK(each.size() == N, kDataLoss, "got ", each.size(), " pairs; expected ", N);
  for (size_t i = 0; i < N; ++i) {
    keras::Sizes<2> pair = 0;
    keras::from_config(each[i], pair);
    edges.values[i] = pair.values;
  }
}

namespace {

struct FlattenArguments {
  FlattenOptions options = {};
};
struct ReshapeArguments {
  std::vector<int64_t> target_shape = {};
  ReshapingOptions options = {};
};
struct PermuteArguments {
  std::vector<int64_t> dims = {};
  ReshapingOptions options = {};
};
struct RepeatVectorArguments {
  int64_t n = 1;
  ReshapingOptions options = {};
};
struct ZeroPadding1DArguments {
  keras::Sizes<2> padding = 1;
  ImageReshapingOptions options = {};
};
template <size_t N>
struct ZeroPaddingArguments {
  Edges<N> padding = 1;
  ImageReshapingOptions options = {};
};
struct Cropping1DArguments {
  keras::Sizes<2> cropping = 1;
  ReshapingOptions options = {};
};
template <size_t N>
struct CroppingArguments {
  Edges<N> cropping = N == 2 ? 0 : 1;
  ImageReshapingOptions options = {};
};
struct UpSampling1DArguments {
  int64_t size = 2;
  ReshapingOptions options = {};
};
struct UpSampling2DArguments {
  keras::Sizes<2> size = 2;
  UpSampling2DOptions options = {};
};
struct UpSampling3DArguments {
  keras::Sizes<3> size = 2;
  ImageReshapingOptions options = {};
};

template <typename Config, typename Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.target_shape; }) config("target_shape", layer.target_shape);
  if constexpr (requires { layer.dims; }) config("dims", layer.dims);
  if constexpr (requires { layer.n; }) config("n", layer.n);
  if constexpr (requires { layer.padding; }) config("padding", layer.padding);
  if constexpr (requires { layer.cropping; }) config("cropping", layer.cropping);
  if constexpr (requires { layer.size; }) config("size", layer.size);
  if constexpr (requires { options.data_format; }) config("data_format", options.data_format);
  if constexpr (requires { options.interpolation; }) {
    config("interpolation", options.interpolation);
  }
}

bool known(const keras::Shape& shape, size_t first) {
  return std::find(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end(), keras::kNone) ==
         shape.end();
}
int64_t product(const keras::Shape& shape, size_t first) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end(),
                         int64_t{1}, std::multiplies<>());
}

class FlattenImpl final : public MovingLayerImpl {
 public:
  explicit FlattenImpl(const FlattenArguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_data_format("Flatten", arguments.options.data_format);
    set_input_spec({{.min_ndim = 1}});
  }
  std::string_view class_name() const override { return "Flatten"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const bool move = arguments_.options.data_format == kChannelsFirst && x.dim() > 2;
    const at::Tensor y = move ? x.movedim(1, -1) : x;
    return y.reshape({y.size(0), product(y.sizes().vec(), 1)});
  }
  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return {input[0], known(input, 1) ? product(input, 1) : keras::kNone};
  }

  FlattenArguments arguments_;
};

class ReshapeImpl final : public MovingLayerImpl {
 public:
  explicit ReshapeImpl(const ReshapeArguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    const auto& shape = arguments.target_shape;
    STRATA_CHECK(std::count(shape.begin(), shape.end(), -1) <= 1 &&
                     std::all_of(shape.begin(), shape.end(), [](auto n) { return n >= -1; }),
                 kInvalidArgument, "[layers] Reshape: got target_shape=", target(),
                 "; expected sizes, one of them at most -1");
    set_input_spec({{.min_ndim = 1}});
  }
  std::string_view class_name() const override { return "Reshape"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  /// With -1 as a number.
  std::string target() const {
    std::string text = "(";
    for (const int64_t n : arguments_.target_shape) {
      text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    }
    return text + (arguments_.target_shape.size() == 1 ? ",)" : ")");
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return x.reshape(compute_output_shape(x.sizes().vec()));
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = {input[0]};
    output.insert(output.end(), arguments_.target_shape.begin(), arguments_.target_shape.end());
    if (!known(input, 1)) return output;  // -1 is kNone
    const int64_t size = product(input, 1);
    const auto open = std::find(output.begin() + 1, output.end(), -1);
    if (open == output.end()) {
      STRATA_CHECK(product(output, 1) == size, kInvalidArgument, "[keras] layer '", name(),
                   "': The total size of the tensor must be unchanged. Received: input_shape=",
                   keras::to_string({input.begin() + 1, input.end()}), ", target_shape=", target());
      return output;
    }
    *open = 1;
    const int64_t rest = product(output, 1);
    STRATA_CHECK(rest != 0 && size % rest == 0, kInvalidArgument, "[keras] layer '", name(),
                 "': The total size of the tensor must be unchanged, however, the input size "
                 "cannot by divided by the specified dimensions in target_shape. Received: "
                 "input_shape=",
                 keras::to_string({input.begin() + 1, input.end()}), ", target_shape=", target());
    *open = size / rest;
    return output;
  }

  ReshapeArguments arguments_;
};

class PermuteImpl final : public MovingLayerImpl {
 public:
  explicit PermuteImpl(const PermuteArguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    std::vector<int64_t> sorted = arguments.dims, expected(sorted.size());
    std::sort(sorted.begin(), sorted.end());
    std::iota(expected.begin(), expected.end(), 1);
    STRATA_CHECK(sorted == expected, kInvalidArgument,
                 "[layers] Permute: got dims=", keras::to_string(arguments.dims),
                 "; expected each of 1 to ", sorted.size(), " once");
    set_input_spec({{.ndim = static_cast<int64_t>(sorted.size()) + 1}});
    order_ = {0};
    order_.insert(order_.end(), arguments.dims.begin(), arguments.dims.end());
  }
  std::string_view class_name() const override { return "Permute"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override { return x.permute(order_); }
  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output;
    for (const int64_t dim : order_) output.push_back(input[static_cast<size_t>(dim)]);
    return output;
  }

  PermuteArguments arguments_;
  std::vector<int64_t> order_;
};

class RepeatVectorImpl final : public MovingLayerImpl {
 public:
  explicit RepeatVectorImpl(const RepeatVectorArguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(arguments.n > 0, kInvalidArgument, "[layers] RepeatVector: got n=", arguments.n,
                 "; expected a positive integer");
    set_input_spec({{.ndim = 2}});
  }
  std::string_view class_name() const override { return "RepeatVector"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return x.unsqueeze(1).expand({x.size(0), arguments_.n, x.size(1)});
  }
  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return {input[0], arguments_.n, input[1]};
  }

  RepeatVectorArguments arguments_;
};

void check_edges(const std::string& class_name, const char* option, at::IntArrayRef values) {
  for (const int64_t value : values) {
    STRATA_CHECK(value >= 0, kInvalidArgument, "[layers] ", class_name, ": got ", option, " of ",
                 value, "; expected integers that are not negative");
  }
}

template <size_t N, typename Arguments>
class ZeroPaddingImpl final : public MovingLayerImpl {
 public:
  explicit ZeroPaddingImpl(const Arguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    for (size_t i = 0; i < N; ++i) check_edges(class_name_, "padding", edge(i));
    check_data_format(class_name_, arguments.options.data_format);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  const std::array<int64_t, 2>& edge(size_t i) const {
    if constexpr (N == 1) {
      return arguments_.padding.values;
    } else {
      return arguments_.padding.values[i];
    }
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const std::string& format = arguments_.options.data_format;
    std::vector<int64_t> pad;  // the last dimension comes first
    for (size_t i = N; i-- > 0;) pad.insert(pad.end(), edge(i).begin(), edge(i).end());
    return user_shape(at::constant_pad_nd(planes_view(x, format), pad), format);
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    for (size_t i = 0; i < N; ++i) {
      int64_t& size = output[first_spatial_axis(arguments_.options.data_format) + i];
      if (size != keras::kNone) size += edge(i)[0] + edge(i)[1];
    }
    return output;
  }

  const std::string class_name_ = "ZeroPadding" + std::to_string(N) + "D";
  Arguments arguments_;
};

template <size_t N, typename Arguments>
class CroppingImpl final : public MovingLayerImpl {
 public:
  explicit CroppingImpl(const Arguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    for (size_t i = 0; i < N; ++i) check_edges(class_name_, "cropping", edge(i));
    if constexpr (N > 1) check_data_format(class_name_, arguments.options.data_format);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  const std::array<int64_t, 2>& edge(size_t i) const {
    if constexpr (N == 1) {
      return arguments_.cropping.values;
    } else {
      return arguments_.cropping.values[i];
    }
  }
  size_t first_axis() const {
    if constexpr (N == 1) {
      return 1;
    } else {
      return first_spatial_axis(arguments_.options.data_format);
    }
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    compute_output_shape(x.sizes().vec());  // complains
    at::Tensor y = x;
    for (size_t i = 0; i < N; ++i) {
      const auto dim = static_cast<int64_t>(first_axis() + i);
      y = y.narrow(dim, edge(i)[0], y.size(dim) - edge(i)[0] - edge(i)[1]);
    }
    return y;
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    for (size_t i = 0; i < N; ++i) {
      int64_t& size = output[first_axis() + i];
      if (size == keras::kNone) continue;
      size -= edge(i)[0] + edge(i)[1];
      STRATA_CHECK(size > 0, kInvalidArgument, "[keras] layer '", name(),
                   "': Values in `cropping` argument should be smaller than the corresponding "
                   "spatial dimension of the input. Received: input_shape=",
                   keras::to_string(input), ", cropping=", to_config(arguments_.cropping).dump());
    }
    return output;
  }

  const std::string class_name_ = "Cropping" + std::to_string(N) + "D";
  Arguments arguments_;
};

class UpSampling1DImpl final : public MovingLayerImpl {
 public:
  explicit UpSampling1DImpl(const UpSampling1DArguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_positive("UpSampling1D", "size", arguments.size);
    set_input_spec({{.ndim = 3}});
  }
  std::string_view class_name() const override { return "UpSampling1D"; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }
  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    return x.unsqueeze(2)
        .expand({x.size(0), x.size(1), arguments_.size, x.size(2)})
        .reshape({x.size(0), x.size(1) * arguments_.size, x.size(2)});
  }
  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return {input[0], input[1] == keras::kNone ? keras::kNone : input[1] * arguments_.size,
            input[2]};
  }

  UpSampling1DArguments arguments_;
};

template <size_t N, typename Arguments>
class UpSamplingImpl final : public MovingLayerImpl {
 public:
  explicit UpSamplingImpl(const Arguments& arguments)
      : MovingLayerImpl(keras::base_options(arguments.options)), arguments_(arguments) {
    check_positive(class_name_, "size", arguments.size.values);
    check_data_format(class_name_, arguments.options.data_format);
    if constexpr (N == 2) check_interpolation(class_name_, arguments.options.interpolation);
    set_input_spec({{.ndim = N + 2}});
  }
  std::string_view class_name() const override { return class_name_; }

 private:
  void describe(keras::ConfigWriter& config) const override { visit(config, arguments_); }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    const std::string& format = arguments_.options.data_format;
    const at::Tensor input = planes(x, format);
    if constexpr (N == 2) {
      if (arguments_.options.interpolation != "nearest") {
        return user_shape(resize_images(input, input.size(2) * arguments_.size[0],
                                        input.size(3) * arguments_.size[1],
                                        arguments_.options.interpolation, false),
                          format);
      }
    }
    at::Tensor y = input;
    for (size_t i = 0; i < N; ++i) y = repeat(y, static_cast<int64_t>(i) + 2, arguments_.size[i]);
    return user_shape(y, format);
  }

  /// Each slice along `dim`, `times` times.
  static at::Tensor repeat(const at::Tensor& x, int64_t dim, int64_t times) {
    if (times == 1) return x;
    std::vector<int64_t> expanded = x.sizes().vec(), merged = expanded;
    expanded.insert(expanded.begin() + dim + 1, times);
    merged[static_cast<size_t>(dim)] *= times;
    return x.unsqueeze(dim + 1).expand(expanded).reshape(merged);
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    for (size_t i = 0; i < N; ++i) {
      int64_t& size = output[first_spatial_axis(arguments_.options.data_format) + i];
      if (size != keras::kNone) size *= arguments_.size[i];
    }
    return output;
  }

  const std::string class_name_ = "UpSampling" + std::to_string(N) + "D";
  Arguments arguments_;
};

using ZeroPadding1DImpl = ZeroPaddingImpl<1, ZeroPadding1DArguments>;
using ZeroPadding2DImpl = ZeroPaddingImpl<2, ZeroPaddingArguments<2>>;
using ZeroPadding3DImpl = ZeroPaddingImpl<3, ZeroPaddingArguments<3>>;
using Cropping1DImpl = CroppingImpl<1, Cropping1DArguments>;
using Cropping2DImpl = CroppingImpl<2, CroppingArguments<2>>;
using Cropping3DImpl = CroppingImpl<3, CroppingArguments<3>>;
using UpSampling2DImpl = UpSamplingImpl<2, UpSampling2DArguments>;
using UpSampling3DImpl = UpSamplingImpl<3, UpSampling3DArguments>;

}  // namespace

Flatten::Flatten(const FlattenOptions& options)
    : Layer(std::make_shared<FlattenImpl>(FlattenArguments{options})) {}
Reshape::Reshape(std::vector<int64_t> target_shape, const ReshapingOptions& options)
    : Layer(std::make_shared<ReshapeImpl>(ReshapeArguments{std::move(target_shape), options})) {}
Permute::Permute(std::vector<int64_t> dims, const ReshapingOptions& options)
    : Layer(std::make_shared<PermuteImpl>(PermuteArguments{std::move(dims), options})) {}
RepeatVector::RepeatVector(int64_t n, const ReshapingOptions& options)
    : Layer(std::make_shared<RepeatVectorImpl>(RepeatVectorArguments{n, options})) {}
ZeroPadding1D::ZeroPadding1D(keras::Sizes<2> padding, const ImageReshapingOptions& options)
    : Layer(std::make_shared<ZeroPadding1DImpl>(ZeroPadding1DArguments{padding, options})) {}
ZeroPadding2D::ZeroPadding2D(Edges<2> padding, const ImageReshapingOptions& options)
    : Layer(std::make_shared<ZeroPadding2DImpl>(ZeroPaddingArguments<2>{padding, options})) {}
ZeroPadding3D::ZeroPadding3D(Edges<3> padding, const ImageReshapingOptions& options)
    : Layer(std::make_shared<ZeroPadding3DImpl>(ZeroPaddingArguments<3>{padding, options})) {}
Cropping1D::Cropping1D(keras::Sizes<2> cropping, const ReshapingOptions& options)
    : Layer(std::make_shared<Cropping1DImpl>(Cropping1DArguments{cropping, options})) {}
Cropping2D::Cropping2D(Edges<2> cropping, const ImageReshapingOptions& options)
    : Layer(std::make_shared<Cropping2DImpl>(CroppingArguments<2>{cropping, options})) {}
Cropping3D::Cropping3D(Edges<3> cropping, const ImageReshapingOptions& options)
    : Layer(std::make_shared<Cropping3DImpl>(CroppingArguments<3>{cropping, options})) {}
UpSampling1D::UpSampling1D(int64_t size, const ReshapingOptions& options)
    : Layer(std::make_shared<UpSampling1DImpl>(UpSampling1DArguments{size, options})) {}
UpSampling2D::UpSampling2D(keras::Sizes<2> size, const UpSampling2DOptions& options)
    : Layer(std::make_shared<UpSampling2DImpl>(UpSampling2DArguments{size, options})) {}
UpSampling3D::UpSampling3D(keras::Sizes<3> size, const ImageReshapingOptions& options)
    : Layer(std::make_shared<UpSampling3DImpl>(UpSampling3DArguments{size, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> reshaping_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Flatten", FlattenImpl, FlattenArguments),
          STRATA_LAYER_CLASS("Reshape", ReshapeImpl, ReshapeArguments),
          STRATA_LAYER_CLASS("Permute", PermuteImpl, PermuteArguments),
          STRATA_LAYER_CLASS("RepeatVector", RepeatVectorImpl, RepeatVectorArguments),
          STRATA_LAYER_CLASS("ZeroPadding1D", ZeroPadding1DImpl, ZeroPadding1DArguments),
          STRATA_LAYER_CLASS("ZeroPadding2D", ZeroPadding2DImpl, ZeroPaddingArguments<2>),
          STRATA_LAYER_CLASS("ZeroPadding3D", ZeroPadding3DImpl, ZeroPaddingArguments<3>),
          STRATA_LAYER_CLASS("Cropping1D", Cropping1DImpl, Cropping1DArguments),
          STRATA_LAYER_CLASS("Cropping2D", Cropping2DImpl, CroppingArguments<2>),
          STRATA_LAYER_CLASS("Cropping3D", Cropping3DImpl, CroppingArguments<3>),
          STRATA_LAYER_CLASS("UpSampling1D", UpSampling1DImpl, UpSampling1DArguments),
          STRATA_LAYER_CLASS("UpSampling2D", UpSampling2DImpl, UpSampling2DArguments),
          STRATA_LAYER_CLASS("UpSampling3D", UpSampling3DImpl, UpSampling3DArguments)};
}

}  // namespace strata::keras
