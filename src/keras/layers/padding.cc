#include <ATen/ops/constant_pad_nd.h>

#include "keras/layers/image_layout.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/windows.h"
#include "strata/keras/layers/reshaping.h"

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

template <typename Config, typename Arguments>
requires keras::OneOf<Arguments, ZeroPadding1DArguments, Cropping1DArguments> ||
    keras::OfAnyRank<Arguments, ZeroPaddingArguments> ||
    keras::OfAnyRank<Arguments, CroppingArguments>
void visit(Config& config, Arguments& layer) {
  if constexpr (requires { layer.padding; }) config("padding", layer.padding);
  if constexpr (requires { layer.cropping; }) config("cropping", layer.cropping);
  if constexpr (requires { layer.options.data_format; }) {
    config("data_format", layer.options.data_format);
  }
}

void check_edges(const std::string& class_name, const char* option, at::IntArrayRef values) {
  for (const int64_t value : values) {
    STRATA_CHECK(value >= 0, kInvalidArgument, "[layers] ", class_name, ": got ", option, " of ",
                 value, "; expected integers that are not negative");
  }
}

/// Of N dimensions' edges the `i`-th; one dimension has no list.
template <size_t N, typename Values>
const std::array<int64_t, 2>& edge_of(const Values& values, size_t i) {
  if constexpr (N == 1) {
    return values;
  } else {
    return values[i];
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
    return edge_of<N>(arguments_.padding.values, i);
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
    return edge_of<N>(arguments_.cropping.values, i);
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

using ZeroPadding1DImpl = ZeroPaddingImpl<1, ZeroPadding1DArguments>;
using ZeroPadding2DImpl = ZeroPaddingImpl<2, ZeroPaddingArguments<2>>;
using ZeroPadding3DImpl = ZeroPaddingImpl<3, ZeroPaddingArguments<3>>;
using Cropping1DImpl = CroppingImpl<1, Cropping1DArguments>;
using Cropping2DImpl = CroppingImpl<2, CroppingArguments<2>>;
using Cropping3DImpl = CroppingImpl<3, CroppingArguments<3>>;

}  // namespace

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

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> padding_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("ZeroPadding1D", ZeroPadding1DImpl, ZeroPadding1DArguments),
          STRATA_LAYER_CLASS("ZeroPadding2D", ZeroPadding2DImpl, ZeroPaddingArguments<2>),
          STRATA_LAYER_CLASS("ZeroPadding3D", ZeroPadding3DImpl, ZeroPaddingArguments<3>),
          STRATA_LAYER_CLASS("Cropping1D", Cropping1DImpl, Cropping1DArguments),
          STRATA_LAYER_CLASS("Cropping2D", Cropping2DImpl, CroppingArguments<2>),
          STRATA_LAYER_CLASS("Cropping3D", Cropping3DImpl, CroppingArguments<3>)};
}

}  // namespace strata::keras
