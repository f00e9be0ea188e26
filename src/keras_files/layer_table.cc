#include "keras_files/layer_table.h"

#include <algorithm>

namespace strata::keras_files {
namespace {

constexpr VariableRow kDense[] = {{"kernel", "in,units"}, {"bias", "units", "use_bias:1"}};
constexpr VariableRow kEinsumDense[] = {{"kernel", "..."}, {"bias", "...", "bias_axes:0"}};
constexpr VariableRow kPartDense[] = {{"kernel", "..."}, {"bias", "...", "use_bias:1"}};
constexpr VariableRow kConv[] = {{"kernel", "kernel_size...,in/groups,filters"},
                                 {"bias", "filters", "use_bias:1"}};
constexpr VariableRow kConvTranspose[] = {{"kernel", "kernel_size...,filters,in"},
                                          {"bias", "filters", "use_bias:1"}};
constexpr VariableRow kDepthwise[] = {{"kernel", "kernel_size...,in,depth_multiplier"},
                                      {"bias", "in*depth_multiplier", "use_bias:1"}};
constexpr VariableRow kSeparable[] = {{"depthwise_kernel", "kernel_size...,in,depth_multiplier"},
                                      {"pointwise_kernel", "1...,in*depth_multiplier,filters"},
                                      {"bias", "filters", "use_bias:1"}};
constexpr VariableRow kBatchNormalization[] = {{"gamma", "axis", "scale:1"},
                                               {"beta", "axis", "center:1"},
                                               {"moving_mean", "axis", "", false},
                                               {"moving_variance", "axis", "", false}};
constexpr VariableRow kLayerNormalization[] = {{"gamma", "...", "scale:1"},
                                               {"beta", "...", "center:1,!rms_scaling:0"}};
constexpr VariableRow kGroupNormalization[] = {{"gamma", "axis", "scale:1"},
                                               {"beta", "axis", "center:1"}};
constexpr VariableRow kRmsNormalization[] = {{"scale", "..."}};
constexpr VariableRow kEmbedding[] = {{"embeddings", "input_dim,output_dim"}};
constexpr VariableRow kLstmCell[] = {{"kernel", "in,4*units"},
                                     {"recurrent_kernel", "units,4*units"},
                                     {"bias", "4*units", "use_bias:1"}};
constexpr VariableRow kGruCell[] = {{"kernel", "in,3*units"},
                                    {"recurrent_kernel", "units,3*units"},
                                    {"bias", "2,3*units", "use_bias:1,reset_after:1"},
                                    {"bias", "3*units", "use_bias:1,!reset_after:1"}};
constexpr VariableRow kSimpleRnnCell[] = {
    {"kernel", "in,units"}, {"recurrent_kernel", "units,units"}, {"bias", "units", "use_bias:1"}};
constexpr VariableRow kConvLstmCell[] = {{"kernel", "kernel_size...,?,4*filters"},
                                         {"recurrent_kernel", "kernel_size...,filters,4*filters"},
                                         {"bias", "4*filters", "use_bias:1"}};
constexpr VariableRow kPRelu[] = {{"alpha", "..."}};
constexpr VariableRow kNormalization[] = {{"mean", "...", "!mean:0", false},
                                          {"variance", "...", "!mean:0", false},
                                          {"count", "", "!mean:0", false}};
constexpr VariableRow kAttention[] = {{"scale", "", "use_scale:0"},
                                      {"concat_score_weight", "", "score_mode=concat"}};
constexpr VariableRow kAdditiveAttention[] = {{"scale", "?", "use_scale:1"}};
constexpr VariableRow kSpectral[] = {{"kernel", "...", "", true, /*is_of_part=*/true},
                                     {"vector_u", "...", "", false}};

constexpr PartRow kLstm[] = {{"cell", "LSTMCell", "lstm_cell"}};
constexpr PartRow kGru[] = {{"cell", "GRUCell", "gru_cell"}};
constexpr PartRow kSimpleRnn[] = {{"cell", "SimpleRNNCell", "simple_rnn_cell"}};
constexpr PartRow kConvLstm[] = {{"cell", "ConvLSTMCell", "conv_lstm_cell"}};
constexpr PartRow kRnn[] = {{"cell", "", "cell"}};
constexpr PartRow kWrapper[] = {{"layer", "", "layer"}};
constexpr PartRow kBidirectional[] = {{"forward_layer", "", "layer"},
                                      {"backward_layer", "", "backward_layer"}};
constexpr PartRow kMultiHead[] = {{"query_dense", "_PartDense", "query"},
                                  {"key_dense", "_PartDense", "key"},
                                  {"_gate_dense", "_PartDense", "gate", "use_gate:0"},
                                  {"value_dense", "_PartDense", "value"},
                                  {"_softmax", "Softmax", "softmax"},
                                  {"_dropout_layer", "Dropout", "dropout"},
                                  {"output_dense", "_PartDense", "attention_output"}};
constexpr PartRow kGroupedQuery[] = {{"_query_dense", "_PartDense", "query"},
                                     {"_key_dense", "_PartDense", "key"},
                                     {"_gate_dense", "_PartDense", "gate", "use_gate:0"},
                                     {"_value_dense", "_PartDense", "value"},
                                     {"_softmax", "Softmax", "softmax"},
                                     {"_dropout_layer", "Dropout", "dropout"},
                                     {"_output_dense", "_PartDense", "attention_output"}};

constexpr LayerRow kLayers[] = {
    {"Dense", kDense},
    {"EinsumDense", kEinsumDense},
    {"_PartDense", kPartDense},  // an EinsumDense that another layer makes
    {"Conv1D", kConv},
    {"Conv2D", kConv},
    {"Conv3D", kConv},
    {"Conv1DTranspose", kConvTranspose},
    {"Conv2DTranspose", kConvTranspose},
    {"Conv3DTranspose", kConvTranspose},
    {"DepthwiseConv1D", kDepthwise},
    {"DepthwiseConv2D", kDepthwise},
    {"SeparableConv1D", kSeparable},
    {"SeparableConv2D", kSeparable},
    {"BatchNormalization", kBatchNormalization},
    {"LayerNormalization", kLayerNormalization},
    {"GroupNormalization", kGroupNormalization},
    {"RMSNormalization", kRmsNormalization},
    {"Normalization", kNormalization},
    {"SpectralNormalization", kSpectral, kWrapper},
    {"Embedding", kEmbedding},
    {"LSTMCell", kLstmCell},
    {"GRUCell", kGruCell},
    {"SimpleRNNCell", kSimpleRnnCell},
    {"ConvLSTMCell", kConvLstmCell},
    {"LSTM", {}, kLstm},
    {"GRU", {}, kGru},
    {"SimpleRNN", {}, kSimpleRnn},
    {"ConvLSTM1D", {}, kConvLstm},
    {"ConvLSTM2D", {}, kConvLstm},
    {"ConvLSTM3D", {}, kConvLstm},
    {"RNN", {}, kRnn},
    {"StackedRNNCells"},
    {"TimeDistributed", {}, kWrapper},
    {"Bidirectional", {}, kBidirectional},
    {"MultiHeadAttention", {}, kMultiHead},
    {"GroupQueryAttention", {}, kGroupedQuery},
    {"GroupedQueryAttention", {}, kGroupedQuery},
    {"Attention", kAttention},
    {"AdditiveAttention", kAdditiveAttention},
    {"PReLU", kPRelu},
};

// Without variables.
constexpr std::string_view kStateless[] = {"Sequential",
                                           "Functional",
                                           "Model",
                                           "InputLayer",
                                           "Activation",
                                           "ReLU",
                                           "LeakyReLU",
                                           "ELU",
                                           "Softmax",
                                           "Dropout",
                                           "AlphaDropout",
                                           "GaussianDropout",
                                           "GaussianNoise",
                                           "SpatialDropout1D",
                                           "SpatialDropout2D",
                                           "SpatialDropout3D",
                                           "ActivityRegularization",
                                           "Identity",
                                           "Masking",
                                           "Flatten",
                                           "Reshape",
                                           "Permute",
                                           "RepeatVector",
                                           "Rescaling",
                                           "Resizing",
                                           "CenterCrop",
                                           "RandomFlip",
                                           "RandomCrop",
                                           "RandomRotation",
                                           "RandomTranslation",
                                           "RandomZoom",
                                           "RandomContrast",
                                           "RandomBrightness",
                                           "CategoryEncoding",
                                           "Hashing",
                                           "HashedCrossing",
                                           "StringLookup",
                                           "IntegerLookup",
                                           "TextVectorization",
                                           "UnitNormalization",
                                           "Add",
                                           "Subtract",
                                           "Multiply",
                                           "Average",
                                           "Maximum",
                                           "Minimum",
                                           "Concatenate",
                                           "Dot",
                                           "MaxPooling1D",
                                           "MaxPooling2D",
                                           "MaxPooling3D",
                                           "AveragePooling1D",
                                           "AveragePooling2D",
                                           "AveragePooling3D",
                                           "AdaptiveMaxPooling1D",
                                           "AdaptiveMaxPooling2D",
                                           "AdaptiveMaxPooling3D",
                                           "AdaptiveAveragePooling1D",
                                           "AdaptiveAveragePooling2D",
                                           "AdaptiveAveragePooling3D",
                                           "GlobalMaxPooling1D",
                                           "GlobalMaxPooling2D",
                                           "GlobalMaxPooling3D",
                                           "GlobalAveragePooling1D",
                                           "GlobalAveragePooling2D",
                                           "GlobalAveragePooling3D",
                                           "ZeroPadding1D",
                                           "ZeroPadding2D",
                                           "ZeroPadding3D",
                                           "Cropping1D",
                                           "Cropping2D",
                                           "Cropping3D",
                                           "UpSampling1D",
                                           "UpSampling2D",
                                           "UpSampling3D"};

constexpr LayerRow kNothing = {"(stateless)"};

}  // namespace

const LayerRow* find_layer(std::string_view class_name) {
  const auto* row = std::ranges::find(kLayers, class_name, &LayerRow::class_name);
  if (row != std::end(kLayers)) return row;
  return std::ranges::find(kStateless, class_name) != std::end(kStateless) ? &kNothing : nullptr;
}

}  // namespace strata::keras_files
