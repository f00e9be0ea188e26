#include "keras_files/mask_rules.h"

#include <algorithm>
#include <array>

#include "keras_files/layer_rules.h"

namespace strata::keras_files {
namespace {

using Makes = MaskRule::Makes;

/// Layers with `supports_masking`, which hand the mask on as it is.
constexpr std::array<std::string_view, 26> kPropagatesMask = {"Activation",
                                                              "ActivityRegularization",
                                                              "AlphaDropout",
                                                              "BatchNormalization",
                                                              "Dense",
                                                              "Dropout",
                                                              "ELU",
                                                              "GaussianDropout",
                                                              "GaussianNoise",
                                                              "GroupNormalization",
                                                              "GroupQueryAttention",
                                                              "GroupedQueryAttention",
                                                              "Identity",
                                                              "LayerNormalization",
                                                              "LeakyReLU",
                                                              "MultiHeadAttention",
                                                              "Normalization",
                                                              "PReLU",
                                                              "ReLU",
                                                              "Rescaling",
                                                              "Softmax",
                                                              "SpatialDropout1D",
                                                              "SpatialDropout2D",
                                                              "SpatialDropout3D",
                                                              "TimeDistributed",
                                                              "UnitNormalization"};

constexpr std::array<std::string_view, 7> kRecurrent = {
    "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GRU", "LSTM", "RNN", "SimpleRNN"};

constexpr std::array<std::string_view, 6> kMerge = {"Add",     "Average",  "Maximum",
                                                    "Minimum", "Multiply", "Subtract"};

/// Classes whose `call` in Keras has an argument `mask`, recurrent ones apart.
constexpr std::array<std::string_view, 8> kTakeMask = {"Bidirectional",
                                                       "BatchNormalization",
                                                       "GlobalAveragePooling1D",
                                                       "Pipeline",
                                                       "Sequential",
                                                       "Softmax",
                                                       "TimeDistributed",
                                                       "Lambda"};

template <size_t n>
bool is_in(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_true(const Json& config, std::string_view option) {
  const Json* value = find_value(config, option);
  return value != nullptr && value->is_bool() && value->as_bool();
}

Makes makes(std::string_view name, const std::function<Json()>& config) {
  if (is_in(kPropagatesMask, name)) return Makes::kSame;
  if (is_in(kMerge, name)) return Makes::kEither;
  if (name == "Concatenate") return Makes::kConcatenated;
  if (name == "Masking") return Makes::kAny;
  if (name == "Attention" || name == "AdditiveAttention") return Makes::kConverted;
  if (name == "Embedding") {
    return is_true(config(), "mask_zero") ? Makes::kNotEqual : Makes::kNothing;
  }
  if (is_in(kRecurrent, name)) {
    return is_true(config(), "return_sequences") ? Makes::kSame : Makes::kNothing;
  }
  if (name == "Bidirectional") {
    const Json own = config();
    const Json* layer = find_value(own, "layer");
    const Json* inner = layer == nullptr ? nullptr : find_value(*layer, "config");
    return inner != nullptr && is_true(*inner, "return_sequences") ? Makes::kSame : Makes::kNothing;
  }
  return Makes::kNothing;
}

}  // namespace

bool begins_masks(std::string_view class_name) {
  return class_name == "Masking" || class_name == "Embedding";
}

MaskRule mask_rule(std::string_view class_name, const std::function<Json()>& config) {
  const bool is_graph = class_name == "Functional" || class_name == "Model";
  return {.makes = makes(class_name, config),
          .first_output_only = is_in(kRecurrent, class_name),
          .takes_mask = is_graph || is_in(kRecurrent, class_name) || is_in(kTakeMask, class_name),
          .takes_it_always = is_graph};
}

}  // namespace strata::keras_files
