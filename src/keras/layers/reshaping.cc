#include "strata/keras/layers/reshaping.h"

#include <algorithm>
#include <numeric>

#include "keras/layers/image_layout.h"
#include "keras/layers/layer_class.h"
#include "keras/layers/windows.h"

namespace strata::layers {

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
template <typename Config,
          keras::OneOf<FlattenArguments, ReshapeArguments, PermuteArguments, RepeatVectorArguments>
              Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  if constexpr (requires { layer.target_shape; }) config("target_shape", layer.target_shape);
  if constexpr (requires { layer.dims; }) config("dims", layer.dims);
  if constexpr (requires { layer.n; }) config("n", layer.n);
  if constexpr (requires { options.data_format; }) config("data_format", options.data_format);
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

}  // namespace

Flatten::Flatten(const FlattenOptions& options)
    : Layer(std::make_shared<FlattenImpl>(FlattenArguments{options})) {}
Reshape::Reshape(std::vector<int64_t> target_shape, const ReshapingOptions& options)
    : Layer(std::make_shared<ReshapeImpl>(ReshapeArguments{std::move(target_shape), options})) {}
Permute::Permute(std::vector<int64_t> dims, const ReshapingOptions& options)
    : Layer(std::make_shared<PermuteImpl>(PermuteArguments{std::move(dims), options})) {}
RepeatVector::RepeatVector(int64_t n, const ReshapingOptions& options)
    : Layer(std::make_shared<RepeatVectorImpl>(RepeatVectorArguments{n, options})) {}
}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> reshaping_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("Flatten", FlattenImpl, FlattenArguments),
          STRATA_LAYER_CLASS("Reshape", ReshapeImpl, ReshapeArguments),
          STRATA_LAYER_CLASS("Permute", PermuteImpl, PermuteArguments),
          STRATA_LAYER_CLASS("RepeatVector", RepeatVectorImpl, RepeatVectorArguments)};
}

}  // namespace strata::keras
