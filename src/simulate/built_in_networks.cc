// The networks of tf_cnn_benchmarks, layer by layer: variables, and multiplications for an image.
#include <utility>

#include "simulate/network_table.h"
#include "strata/core/error.h"

namespace strata::simulate {
namespace {

// Forward's part of a step: backward computes gradients of inputs and of weights, as much each.
constexpr double kForwardPart = 1.0 / 3;

enum class Norm { kNone, kOffset, kScaleAndOffset };  // behind a convolution; without: a bias

struct Window {
  int64_t height;
  int64_t width;
  int64_t stride = 1;
  bool same = true;  // padded to keep the size, but for the stride
};

class NetworkBuilder {
 public:
  struct Shape {
    int64_t height, width, channels;
  };

  NetworkBuilder(int64_t size, Norm norm) : shape_{size, size, 3}, norm_(norm) {}

  Shape shape() const { return shape_; }
  void set_shape(Shape shape) { shape_ = shape; }

  void conv(int64_t filters, Window window) {
    const int64_t channels = shape_.channels;
    slide(window);
    shape_.channels = filters;
    const std::string name = str_cat("conv", convs_++);
    const int64_t weights = window.height * window.width * channels * filters;
    Layer& layer = add(name, static_cast<double>(weights * shape_.height * shape_.width));
    layer.variables.push_back({.name = str_cat(name, "/kernel"),
                               .shape = {window.height, window.width, channels, filters}});
    if (norm_ == Norm::kNone) {
      layer.variables.push_back({.name = str_cat(name, "/bias"), .shape = {filters}});
      return;
    }
    layer.variables.push_back({.name = str_cat(name, "/batchnorm/beta"), .shape = {filters}});
    if (norm_ == Norm::kScaleAndOffset) {
      layer.variables.push_back({.name = str_cat(name, "/batchnorm/gamma"), .shape = {filters}});
    }
  }

  void pool(Window window) { slide(window); }
  void pool_all() { shape_.height = shape_.width = 1; }

  void dense(const std::string& name, int64_t units) {
    const int64_t inputs = shape_.height * shape_.width * shape_.channels;
    shape_ = {1, 1, units};
    Layer& layer = add(name, static_cast<double>(inputs * units));
    layer.variables.push_back({.name = str_cat(name, "/weights"), .shape = {inputs, units}});
    layer.variables.push_back({.name = str_cat(name, "/biases"), .shape = {units}});
  }

  using Branch = std::vector<std::pair<int64_t, Window>>;
  /// Branches beside each other, concatenated. @param pooled  So are the channels of a pooling.
  void module(const std::vector<Branch>& branches, bool pooled = false) {
    const Shape from = shape_;
    Shape to = from;
    int64_t channels = pooled ? from.channels : 0;
    for (const Branch& branch : branches) {
      shape_ = from;
      for (const auto& [filters, window] : branch) conv(filters, window);
      channels += shape_.channels;
      to = shape_;
    }
    shape_ = {to.height, to.width, channels};
  }

  std::vector<Layer> finish() && { return std::move(layers_); }

 private:
  void slide(const Window& w) {
    const auto out = [&](int64_t in, int64_t window) {
      return w.same ? (in + w.stride - 1) / w.stride : (in - window) / w.stride + 1;
    };
    shape_.height = out(shape_.height, w.height);
    shape_.width = out(shape_.width, w.width);
  }
  /// Seconds are multiplications here, which the caller scales.
  Layer& add(const std::string& name, double multiplications) {
    layers_.push_back({.name = name,
                       .forward_seconds = multiplications * kForwardPart,
                       .backward_seconds = multiplications * (1 - kForwardPart)});
    return layers_.back();
  }

  Shape shape_;
  Norm norm_;
  int convs_ = 0;
  std::vector<Layer> layers_;
};

std::vector<Layer> inception3() {
  NetworkBuilder net(299, Norm::kOffset);
  const Window one{1, 1};
  const Window three{3, 3};
  const Window valid{3, 3, 1, false};
  const Window half{3, 3, 2, false};
  const Window row{1, 7};
  const Window column{7, 1};
  net.conv(32, half);
  net.conv(32, valid);
  net.conv(64, three);
  net.pool(half);
  net.conv(80, {1, 1, 1, false});
  net.conv(192, valid);
  net.pool(half);
  for (const int64_t n : {32, 64, 64}) {
    net.module({{{64, one}},
                {{48, one}, {64, {5, 5}}},
                {{64, one}, {96, three}, {96, three}},
                {{n, one}}});
  }
  net.module({{{384, half}}, {{64, one}, {96, three}, {96, half}}}, /*pooled=*/true);
  for (const int64_t n : {128, 160, 160, 192}) {
    net.module({{{192, one}},
                {{n, one}, {n, row}, {192, column}},
                {{n, one}, {n, column}, {n, row}, {n, column}, {192, row}},
                {{192, one}}});
  }
  net.module({{{192, one}, {320, half}}, {{192, one}, {192, row}, {192, column}, {192, half}}},
             /*pooled=*/true);
  for (int i = 0; i < 2; ++i) {
    // Two branches fork once more at their ends.
    const NetworkBuilder::Shape from = net.shape();
    const auto forked = [&](const NetworkBuilder::Branch& stem) {
      net.set_shape(from);
      net.module({stem});
      const NetworkBuilder::Shape middle = net.shape();
      net.conv(384, {1, 3});
      net.set_shape(middle);
      net.conv(384, {3, 1});
    };
    net.conv(320, one);
    forked({{384, one}});
    forked({{448, one}, {384, three}});
    net.set_shape(from);
    net.conv(192, one);
    net.set_shape({from.height, from.width, 320 + 4 * 384 + 192});
  }
  net.pool_all();
  net.dense("affine", 1000);
  return std::move(net).finish();
}

std::vector<Layer> resnet50() {
  NetworkBuilder net(224, Norm::kScaleAndOffset);
  net.conv(64, {7, 7, 2});
  net.pool({3, 3, 2});
  int64_t stride = 1;
  for (const auto& [filters, blocks] :
       {std::pair<int64_t, int>{64, 3}, {128, 4}, {256, 6}, {512, 3}}) {
    for (int block = 0; block < blocks; ++block) {
      const NetworkBuilder::Shape from = net.shape();
      const int64_t first = block == 0 ? stride : 1;
      net.conv(filters, {1, 1});
      net.conv(filters, {3, 3, first});
      net.conv(4 * filters, {1, 1});
      const NetworkBuilder::Shape to = net.shape();
      if (block == 0) {
        net.set_shape(from);
        net.conv(4 * filters, {1, 1, first});
      }
      net.set_shape(to);
    }
    stride = 2;
  }
  net.pool_all();
  net.dense("affine", 1000);
  return std::move(net).finish();
}

std::vector<Layer> vgg16() {
  NetworkBuilder net(224, Norm::kNone);
  for (const auto& [filters, count] :
       {std::pair<int64_t, int>{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < count; ++i) net.conv(filters, {3, 3});
    net.pool({2, 2, 2});
  }
  net.dense("fc6", 4096);
  net.dense("fc7", 4096);
  net.dense("fc8", 1000);
  return std::move(net).finish();
}

std::vector<Layer> alexnet() {
  NetworkBuilder net(227, Norm::kNone);
  const Window pool{3, 3, 2, false};
  net.conv(64, {11, 11, 4, false});
  net.pool(pool);
  net.conv(192, {5, 5});
  net.pool(pool);
  net.conv(384, {3, 3});
  net.conv(384, {3, 3});
  net.conv(256, {3, 3});
  net.pool(pool);
  net.dense("fc6", 4096);
  net.dense("fc7", 4096);
  net.dense("fc8", 1000);
  return std::move(net).finish();
}

constexpr std::pair<const char*, std::vector<Layer> (*)()> kNetworks[] = {
    {"inception3", inception3}, {"resnet50", resnet50}, {"vgg16", vgg16}, {"alexnet", alexnet}};

}  // namespace

std::vector<std::string> built_in_networks() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kNetworks) names.push_back(name);
  return names;
}

NetworkTable built_in_network(std::string_view name, double step_seconds, int64_t batch) {
  std::string known;
  for (const auto& [each, make] : kNetworks) {
    known += str_cat(known.empty() ? "" : ", ", each);
    if (name != each) continue;
    const NetworkTable table{
        .name = each,
        .source =
            "variables and layers of tf_cnn_benchmarks; the step's time shared by "
            "multiplications, a third forward",
        .batch = batch,
        .layers = make()};
    return table.with_step_seconds(step_seconds);
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[simulate] network: got ", name, "; expected one of ", known,
                      ", or a file ending in .json"));
}

}  // namespace strata::simulate
