#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "strata/core/file_system.h"
#include "strata/core/json.h"
#include "strata/keras/applications.h"

namespace strata::applications {
namespace {

enum class Preprocessing { kNone, kTf, kTorch, kCaffe };

struct NetworkPreprocessing {
  std::string_view network;
  Preprocessing mode;
};
constexpr std::array kPreprocessing = std::to_array<NetworkPreprocessing>({
    {"ConvNeXtBase", Preprocessing::kNone},     {"ConvNeXtLarge", Preprocessing::kNone},
    {"ConvNeXtSmall", Preprocessing::kNone},    {"ConvNeXtTiny", Preprocessing::kNone},
    {"ConvNeXtXLarge", Preprocessing::kNone},   {"DenseNet121", Preprocessing::kTorch},
    {"DenseNet169", Preprocessing::kTorch},     {"DenseNet201", Preprocessing::kTorch},
    {"EfficientNetB0", Preprocessing::kNone},   {"EfficientNetB1", Preprocessing::kNone},
    {"EfficientNetB2", Preprocessing::kNone},   {"EfficientNetB3", Preprocessing::kNone},
    {"EfficientNetB4", Preprocessing::kNone},   {"EfficientNetB5", Preprocessing::kNone},
    {"EfficientNetB6", Preprocessing::kNone},   {"EfficientNetB7", Preprocessing::kNone},
    {"EfficientNetV2B0", Preprocessing::kNone}, {"EfficientNetV2B1", Preprocessing::kNone},
    {"EfficientNetV2B2", Preprocessing::kNone}, {"EfficientNetV2B3", Preprocessing::kNone},
    {"EfficientNetV2L", Preprocessing::kNone},  {"EfficientNetV2M", Preprocessing::kNone},
    {"EfficientNetV2S", Preprocessing::kNone},  {"InceptionResNetV2", Preprocessing::kTf},
    {"InceptionV3", Preprocessing::kTf},        {"MobileNet", Preprocessing::kTf},
    {"MobileNetV2", Preprocessing::kTf},        {"MobileNetV3Large", Preprocessing::kNone},
    {"MobileNetV3Small", Preprocessing::kNone}, {"NASNetLarge", Preprocessing::kTf},
    {"NASNetMobile", Preprocessing::kTf},       {"ResNet101", Preprocessing::kCaffe},
    {"ResNet101V2", Preprocessing::kTf},        {"ResNet152", Preprocessing::kCaffe},
    {"ResNet152V2", Preprocessing::kTf},        {"ResNet50", Preprocessing::kCaffe},
    {"ResNet50V2", Preprocessing::kTf},         {"VGG16", Preprocessing::kCaffe},
    {"VGG19", Preprocessing::kCaffe},           {"Xception", Preprocessing::kTf},
});

Preprocessing preprocessing_of(const std::string& network) {
  std::string known;
  for (const NetworkPreprocessing& each : kPreprocessing) {
    if (each.network == network) return each.mode;
    known += str_cat(known.empty() ? "" : ", ", each.network);
  }
  throw Error(ErrorCode::kInvalidArgument, str_cat("[applications] preprocess_input: got network '",
                                                   network, "'; expected one of ", known));
}

/// A class and its description of an entry ["n01440764", "tench"].
std::array<std::string, 2> index_entry(const Json& index, int64_t number, const std::string& path) {
  const Json* entry = index.is_object() ? index.find(std::to_string(number)) : nullptr;
  const bool fits = entry != nullptr && entry->is_array() && entry->as_array().size() == 2 &&
                    entry->as_array()[0].is_string() && entry->as_array()[1].is_string();
  STRATA_CHECK(fits, kDataLoss, "[applications] decode_predictions: '", path, "' has no entry \"",
               number, "\": [class, description]");
  return {entry->as_array()[0].as_string(), entry->as_array()[1].as_string()};
}

}  // namespace

at::Tensor preprocess_input(const std::string& network, const at::Tensor& images) {
  const Preprocessing mode = preprocessing_of(network);
  if (mode == Preprocessing::kNone) return images;
  const at::Tensor x = images.is_floating_point() ? images : images.to(at::kFloat);
  if (mode == Preprocessing::kTf) return x / 127.5 - 1.0;
  STRATA_CHECK(x.dim() > 0 && x.size(-1) == 3, kInvalidArgument,
               "[applications] preprocess_input: got images of shape ",
               keras::to_string(x.sizes().vec()), " for ", network,
               "; expected three channels, red, green and blue, last");
  const auto each = [&](const std::array<double, 3>& channels) {
    return at::tensor(at::ArrayRef<double>(channels), at::kDouble).to(x.options());
  };
  if (mode == Preprocessing::kCaffe) return x.flip(-1) - each({103.939, 116.779, 123.68});
  return (x / 255.0 - each({0.485, 0.456, 0.406})) / each({0.229, 0.224, 0.225});
}

std::vector<std::vector<Prediction>> decode_predictions(const at::Tensor& predictions,
                                                        const std::string& class_index,
                                                        size_t top) {
  const Json index = Json::parse(read_file(class_index));
  const size_t classes = index.is_object() ? index.as_object().size() : 0;
  STRATA_CHECK(predictions.dim() == 2 && predictions.size(1) == static_cast<int64_t>(classes),
               kInvalidArgument, "[applications] decode_predictions: got shape ",
               keras::to_string(predictions.sizes().vec()), "; expected [batch, ", classes,
               "], as many classes as '", class_index, "' has");
  const at::Tensor scores = predictions.detach().to(at::kCPU, at::kDouble);
  const auto count = static_cast<int64_t>(std::min(top, classes));
  const auto [values, places] = at::topk(scores, count, 1);
  std::vector<std::vector<Prediction>> decoded(static_cast<size_t>(scores.size(0)));
  for (int64_t row = 0; row < scores.size(0); ++row) {
    for (int64_t i = 0; i < count; ++i) {
      const auto number = places[row][i].item<int64_t>();
      const auto [class_name, description] = index_entry(index, number, class_index);
      decoded[static_cast<size_t>(row)].push_back(
          {class_name, description, values[row][i].item<double>()});
    }
  }
  return decoded;
}

}  // namespace strata::applications
