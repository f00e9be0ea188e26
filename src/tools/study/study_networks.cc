#include "tools/study/study_networks.h"

#include <algorithm>

#include "core/join.h"
#include "strata/core/error.h"
#include "strata/keras/applications.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/layers.h"
#include "strata/keras/sequential.h"

namespace strata::tools {
namespace {

using Tensor = keras::SymbolicTensor;

/// Krizhevsky's network in one tower. Source: alexnet_model.py of tf_cnn_benchmarks.
keras::Model make_alexnet(const Tensor& images, int64_t classes) {
  const auto convolution = [](int64_t filters, int64_t size) {
    return layers::Conv2D(filters, size, {.padding = "same", .activation = "relu"});
  };
  const auto pool = [] { return layers::MaxPooling2D(3, {.strides = 2}); };
  return keras::Sequential(
      images,
      {layers::Conv2D(64, 11, {.strides = 4, .activation = "relu"}), pool(), convolution(192, 5),
       pool(), convolution(384, 3), convolution(384, 3), convolution(256, 3), pool(),
       layers::Flatten(), layers::Dense(4096, "relu"), layers::Dropout(0.5),
       layers::Dense(4096, "relu"), layers::Dropout(0.5), layers::Dense(classes)});
}

/// Next to no computing, and 4096 times as many weights as classes: what is left is the input and
/// the strategy. Source: trivial_model.py of tf_cnn_benchmarks.
keras::Model make_trivial(const Tensor& images, int64_t classes) {
  return keras::Sequential(images, {layers::Flatten(), layers::Dense(1, "relu"),
                                    layers::Dense(4096, "relu"), layers::Dense(classes)});
}

Tensor normalized_convolution(const Tensor& x, int64_t filters, int64_t size, int64_t stride) {
  return layers::BatchNormalization({.momentum = 0.9, .epsilon = 1e-5})(
      layers::Conv2D(filters, size, {.strides = stride, .padding = "same", .use_bias = false})(x));
}

/// Three stages of three blocks of two convolutions, for CIFAR's images. Where the stage changes,
/// the shortcut is a 1 x 1 convolution.
keras::Model make_resnet20(const Tensor& images, int64_t classes) {
  const auto relu = [](const Tensor& x) { return layers::Activation("relu")(x); };
  Tensor x = relu(normalized_convolution(images, 16, 3, 1));
  int64_t width = 16;
  for (const int64_t filters : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const int64_t stride = filters != width ? 2 : 1;
      const Tensor shortcut = filters != width ? normalized_convolution(x, filters, 1, stride) : x;
      const Tensor inner = relu(normalized_convolution(x, filters, 3, stride));
      x = relu(layers::Add()({normalized_convolution(inner, filters, 3, 1), shortcut}));
      width = filters;
    }
  }
  return {images, layers::Dense(classes)(layers::GlobalAveragePooling2D()(x))};
}

}  // namespace

const std::vector<StudyNetwork>& study_networks() {
  static const std::vector<StudyNetwork> networks = {
      {"resnet50", 224, 64, 1000, 32},     {"inception3", 299, 64, 1000, 75},
      {"vgg16", 224, 64, 1000, 32},        {"alexnet", 227, 512, 1000, 67},
      {"mobilenet_v2", 224, 64, 1000, 32}, {"resnet20", 32, 128, 10, 8},
      {"trivial", 227, 32, 1000, 1}};
  return networks;
}

const StudyNetwork& study_network(const std::string& name) {
  const auto name_of = [](const StudyNetwork& network) { return std::string(network.name); };
  const auto& all = study_networks();
  const auto found = std::ranges::find(all, name, name_of);
  STRATA_CHECK(found != all.end(), kInvalidArgument, "[strata study] got --network ", name,
               "; expected one of ", join(all, name_of));
  return *found;
}

keras::Model make_study_network(const std::string& name, int64_t image_size, int64_t classes,
                                int64_t channels) {
  const StudyNetwork& network = study_network(name);
  STRATA_CHECK(image_size >= network.smallest, kInvalidArgument, "[strata study] got --image-size ",
               image_size, " for ", name, "; expected ", network.smallest, " at least");
  const applications::Options options{.input_shape = {image_size, image_size, channels},
                                      .classes = classes,
                                      .classifier_activation = "linear"};
  const auto make = [&]() -> keras::Model {
    if (name == "resnet50") return applications::ResNet50(options);
    if (name == "inception3") return applications::InceptionV3(options);
    if (name == "vgg16") return applications::VGG16(options);
    if (name == "mobilenet_v2") return applications::MobileNetV2(options);
    const Tensor images = keras::Input({image_size, image_size, channels});
    if (name == "alexnet") return make_alexnet(images, classes);
    if (name == "resnet20") return make_resnet20(images, classes);
    return make_trivial(images, classes);
  };
  const keras::Model model = make();
  if (keras::dtype_policy().compute_dtype() == at::kFloat) return model;
  return {model.inputs(), {layers::Activation("linear", {.dtype = "float32"})(model.outputs()[0])}};
}

}  // namespace strata::tools
