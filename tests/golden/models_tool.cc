// Models that strata writes, for check_ours_with_keras.py.
//
//   strata_models_tool write FOLDER          models of strata's layers, and those of Keras written
//   again strata_models_tool applications FOLDER   a network of each family of keras.applications
//   (1.5 GB)
//   strata_models_tool predict MODEL.keras INPUTS.safetensors OUTPUTS.safetensors
//   strata_models_tool predict_application NAME WEIGHTS INPUTS.safetensors OUTPUTS.safetensors
//   strata_models_tool step MODEL.keras BATCH.safetensors OUT.keras   one step of training
//
// For each model NAME.keras there are NAME.inputs.safetensors (x0, x1, ...) and
// NAME.outputs.safetensors (y0, ...).
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <map>

#include "keras/golden_models.h"
#include "keras/graph/input_layer.h"
#include "strata/checkpoint/safetensors.h"
#include "strata/core/file_system.h"
#include "strata/keras/applications.h"
#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/attention.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/recurrent.h"
#include "strata/keras/layers/regularization.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/layers/wrappers.h"
#include "strata/keras/ops.h"
#include "strata/keras/saving.h"
#include "strata/keras/sequential.h"
#include "support/source_path.h"

using namespace strata;         // NOLINT
using namespace strata::keras;  // NOLINT

namespace {

/// Numbers that are all different, of a size that does not blow up.
void fill(const Model& model) {
  at::manual_seed(7);
  for (const Weight& weight : model->weights()) {
    Variable variable = weight.variable;
    const int64_t fan = std::max<int64_t>(
        1, variable.numel() /
               std::max<int64_t>(1, variable.sizes().empty() ? 1 : variable.sizes().back()));
    at::Tensor value =
        at::randn(variable.sizes(), at::kDouble) / std::sqrt(static_cast<double>(fan));
    if (weight.name == "gamma") value = value.abs() * 0.3 + 0.8;
    const bool is_variance = weight.name == "moving_variance" || weight.name == "variance";
    if (is_variance) value = value.abs() * 0.3 + 0.9;
    if (variable.sizes().size() <= 1 && weight.name != "gamma" && !is_variance) {
      value = value * 0.2;
    }
    variable.assign(value.to(variable.dtype()));
  }
}

Tensors inputs_for(const Model& model, int64_t batch) {
  at::manual_seed(11);
  Tensors inputs;
  for (const SymbolicTensor& input : model.inputs()) {
    Shape shape = input.shape();
    shape[0] = batch;
    for (int64_t& size : shape) size = size == kNone ? 7 : size;
    inputs.push_back(c10::isIntegralType(input.dtype(), true)
                         ? at::randint(0, 7, shape).to(input.dtype())
                         : at::randn(shape).to(input.dtype()));
  }
  return inputs;
}

NamedTensors numbered(const char* letter, const Tensors& tensors) {
  NamedTensors named;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::ScalarType dtype = tensors[i].scalar_type();
    const bool half = dtype == at::kHalf || dtype == at::kBFloat16;  // NumPy has no bfloat16
    named.emplace_back(str_cat(letter, i),
                       tensors[i].detach().to(half ? at::kFloat : dtype).contiguous());
  }
  return named;
}

void write(const Model& model, const std::string& folder, const std::string& name,
           int64_t batch = 3) {
  const at::NoGradGuard no_grad;
  const Tensors inputs = inputs_for(model, batch);
  const Tensors outputs = model.call(inputs, Call{});
  const std::string stem = join_path(folder, name);
  save_model(model, stem + ".keras");
  save_safetensors(stem + ".inputs.safetensors", numbered("x", inputs));
  save_safetensors(stem + ".outputs.safetensors", numbered("y", outputs));
  std::cout << name << std::endl;
}

void write_filled(const Model& model, const std::string& folder, const std::string& name) {
  fill(model);
  write(model, folder, name);
}

Model residual() {
  const SymbolicTensor image = Input({9, 9, 3});
  SymbolicTensor x = layers::Conv2D(4, 3, {.strides = 2, .padding = "same"})(image);
  for (int i = 0; i < 3; ++i) {
    SymbolicTensor y = layers::BatchNormalization()(x);
    y = layers::Conv2D(4, 3, {.padding = "same", .activation = "relu"})(y);
    x = x + y * 0.5;
  }
  return {image, layers::Dense(3, "softmax")(layers::GlobalAveragePooling2D()(x))};
}

Model several() {
  const SymbolicTensor a = Input({3}, {.name = "left"});
  const SymbolicTensor b = Input({4}, {.name = "right"});
  const SymbolicTensor inner_in = Input({5});
  const Model inner(inner_in, layers::Dense(5, "tanh")(inner_in), "inner");
  const layers::Dense shared(5, "relu");
  const SymbolicTensor x = inner(layers::Dense(5)(a));
  const SymbolicTensor y = inner(shared(shared(layers::Dense(5)(b))));
  const SymbolicTensor z = ops::concatenate({x, -y, ops::maximum(x, 0.1)}, -1);
  return {{a, b}, {layers::Dense(1)(z), inner(y), ops::mean(z, {1}, true)}, "several"};
}

Model slices() {
  const SymbolicTensor x = Input({6, 4});
  const SymbolicTensor first = ops::get_item(x, {ops::Slice(), 0});
  const SymbolicTensor last = ops::get_item(x, {ops::Ellipsis{}, ops::Slice{1, -1, {}}});
  const SymbolicTensor y = ops::reshape(ops::transpose(last, {0, 2, 1}), {-1, 12});
  return {x, ops::concatenate({first, ops::softmax(y), ops::exp(first) / 2.0}, 1)};
}

Model tokens() {
  const SymbolicTensor x = Input({6}, {.dtype = at::kInt});
  SymbolicTensor y = layers::Embedding(7, 4, {.mask_zero = true})(x);
  y = layers::Bidirectional(layers::LSTM(3, {.return_sequences = true}))(y);
  y = layers::GRU(3)(y);
  return {x, layers::Dense(2)(y)};
}

/// Two equal layers, of which the operations behind the mask decide which one Keras numbers first.
Model branches() {
  const SymbolicTensor x = Input({5, 3});
  const SymbolicTensor left = layers::Dense(3)(x);
  const SymbolicTensor right = layers::Dense(3)(x);
  const SymbolicTensor last = layers::LSTM(2)(layers::Masking()(left));
  return {{x}, {layers::GlobalAveragePooling1D()(layers::Activation("tanh")(right)), last}};
}

Model transformer() {
  const SymbolicTensor x = Input({5, 6});
  SymbolicTensor y = layers::MultiHeadAttention(2, 3)(x, x, {.use_causal_mask = true});
  y = layers::LayerNormalization()(x + y);
  SymbolicTensor z = layers::Dense(6)(layers::Dense(12, "gelu")(y));
  return {x, layers::GlobalAveragePooling1D()(layers::LayerNormalization()(y + z))};
}

Model states() {
  const SymbolicTensor source = Input({kNone, 3});
  const SymbolicTensor target = Input({kNone, 2});
  const auto encoded = layers::LSTM(4, {.return_state = true}).with_states(source);
  const layers::LSTM decoder(4, {.return_sequences = true});
  return {
      {source, target}, {decoder(target, {.initial_state = {encoded[1], encoded[2]}})}, "states"};
}

Model masks() {
  const SymbolicTensor x = Input({5, 6});
  const SymbolicTensor mask = Input({5, 5}, {.dtype = at::kInt});
  const SymbolicTensor y = layers::MultiHeadAttention(2, 3)(x, x, {.attention_mask = mask});
  const SymbolicTensor z = layers::GroupQueryAttention(3, 2, 1)(y, y, {.attention_mask = mask});
  return {{x, mask},
          {layers::MultiHeadAttention(2, 3)(z, x, {.key = y, .attention_mask = mask})},
          "masks"};
}

/// Recurrent layers with a state for each row of a batch of 3.
Model stateful() {
  const SymbolicTensor x = Input({5, 2}, {.batch_size = 3});
  SymbolicTensor y = layers::LSTM(3, {.return_sequences = true, .stateful = true})(x);
  y = layers::GRU(2, {.return_sequences = true, .stateful = true})(y);
  return {{x}, {layers::Bidirectional(layers::SimpleRNN(2, {.stateful = true}))(y)}, "stateful"};
}

/// Classes and operations that Keras knows by what they are registered by.
Model registered() {
  const SymbolicTensor x = Input({4, 3});
  const Layer scale = layer_from_config(Json::parse(
      R"({"class_name":"Scale","registered_name":"mine>Scale","config":{"name":"s"}})"));
  const Layer times = layer_from_config(
      Json::parse(R"({"module":null,"class_name":"Times","registered_name":"mine>Times",)"
                  R"("config":{"name":"times","factor":3.0}})"));
  const Layer einsum = layer_from_config(Json::parse(
      R"({"module":"keras.src.ops.numpy","class_name":"Einsum","registered_name":"Einsum",)"
      R"("config":{"name":"einsum","subscripts":"bij,bkj->bik"}})"));
  const SymbolicTensor y = times.call({x}, Json::parse(R"({"args":[{"tensor":0}]})"))[0];
  const Json both = Json::parse(R"({"args":[{"tensor":0},{"tensor":1}]})");
  return {x, einsum.call({scale(x), y}, both)[0], "registered"};
}

/// Operations of every table, as strata's functions make them.
Model operations() {
  using namespace ops;  // NOLINT(google-build-using-namespace)
  const SymbolicTensor x = Input({4, 6}), image = Input({8, 8, 3});
  const SymbolicTensor alike = einsum("bij,bkj->bik", {x, x});
  const SymbolicTensor parts = concatenate(split(x, {1, 4}, 2), 2);
  const SymbolicTensor joined = stack({amax(x, 2), ptp(x, 2), ops::max(x, 2, false, 0.1),
                                       median(x, 2), squeeze(take(x, {2}, 2), 2)},
                                      2);
  const SymbolicTensor padded = pad(x, {{0, 0}, {1, 0}, {0, 2}}, "constant", 0.5);
  const SymbolicTensor waves = stft(reshape(x, {-1, 24}), 8, 4, 8)[0];
  const SymbolicTensor features =
      image::resize(image::rgb_to_grayscale(image), {4, 4}, {.interpolation = "nearest"});
  const SymbolicTensor pooled = average_pool(image, {2, 2}, {2, 2}, "same");
  return {{x, image},
          {layer_normalization(alike), parts, joined, padded, waves, features, pooled,
           top_k(cumsum(x, 2), 2)[0], where(greater(x, 0.5), x, 0.0), logsumexp(x, {1, 2}, true),
           tile(swapaxes(x, 1, 2), {1, 2, 1}), triu(alike, 1), squareplus(x), clip(x, -0.5, 0.5),
           rot90(x, 1, {1, 2}), image::extract_patches(image, {2, 2})},
          "operations"};
}

void write_all(const std::string& folder) {
  write_filled(Sequential(Input({8}), {layers::Dense(5, "relu"), layers::Dropout(0.3),
                                       layers::BatchNormalization(), layers::Dense(3)}),
               folder, "ours_mlp");
  write_filled(
      Sequential(
          Input({12, 12, 2}),
          {layers::Conv2D(4, 3, {.padding = "same"}), layers::ReLU(), layers::MaxPooling2D(),
           layers::DepthwiseConv2D(3), layers::SeparableConv2D(5, 2),
           layers::Conv2DTranspose(2, 2, {.strides = 2}), layers::Flatten(), layers::Dense(2)}),
      folder, "ours_cnn");
  write_filled(residual(), folder, "ours_residual");
  write_filled(several(), folder, "ours_several");
  write_filled(slices(), folder, "ours_slices");
  write_filled(tokens(), folder, "ours_tokens");
  write_filled(branches(), folder, "ours_branches");
  write_filled(transformer(), folder, "ours_transformer");
  write_filled(states(), folder, "ours_states");
  write_filled(masks(), folder, "ours_attention_masks");
  write_filled(stateful(), folder, "ours_stateful");
  write_filled(Sequential(Input({4, 6, 6, 1}),
                          {layers::TimeDistributed(Sequential(
                               Input({6, 6, 1}), {layers::Conv2D(2, 3), layers::Flatten()})),
                           layers::SimpleRNN(3)}),
               folder, "ours_frames");
  const Json& golden = strata::keras::golden::golden_models();  // registers classes
  write_filled(registered(), folder, "ours_registered");
  write_filled(operations(), folder, "ours_operations");
  for (const Json& each : golden.at("models").as_array()) {
    const std::string file =
        strata::test::source_path("tests/golden/" + each.at("file").as_string());
    write(load_model(file), folder, "again_" + each.at("name").as_string());
  }
}

/// A network of each family, and a size that it takes.
struct Application {
  const char* name;
  int64_t size;
  std::function<Model(const applications::Options&)> make;
};
std::vector<Application> all_applications() {
  using namespace applications;  // NOLINT(google-build-using-namespace)
  using Given = const applications::Options&;
  return {{"ResNet50", 64, ResNet50},
          {"ResNet50V2", 64, ResNet50V2},
          {"VGG16", 32, VGG16},
          {"DenseNet121", 64, DenseNet121},
          {"InceptionV3", 96, InceptionV3},
          {"InceptionResNetV2", 96, InceptionResNetV2},
          {"Xception", 96, Xception},
          {"MobileNet", 64, [](Given options) { return MobileNet(options); }},
          {"MobileNetV2", 64, [](Given options) { return MobileNetV2(options); }},
          {"MobileNetV3Small", 64, [](Given options) { return MobileNetV3Small(options); }},
          {"EfficientNetB0", 64, EfficientNetB0},
          {"EfficientNetV2B0", 64, [](Given options) { return EfficientNetV2B0(options); }},
          {"ConvNeXtTiny", 64, [](Given options) { return ConvNeXtTiny(options); }},
          {"NASNetMobile", 64, NASNetMobile}};
}

applications::Options application_options(int64_t size) {
  return {.input_shape = {size, size, 3}, .classes = 10, .classifier_activation = "linear"};
}

void write_applications(const std::string& folder) {
  for (const Application& application : all_applications()) {
    const Model model = application.make(application_options(application.size));
    fill(model);
    write(model, folder, application.name, 2);
  }
}

/// x0, x1, ... or y0, y1, ...
Tensors tensors_of(const NamedTensors& named, char letter) {
  std::map<size_t, at::Tensor> by_number;
  for (const auto& [name, tensor] : named) {
    if (name[0] == letter) by_number.emplace(std::stoul(name.substr(1)), tensor);
  }
  Tensors tensors;
  for (const auto& [number, tensor] : by_number) tensors.push_back(tensor);
  return tensors;
}

void step(const std::string& model_path, const std::string& batch_path, const std::string& to) {
  const Model model = load_model(model_path);
  const NamedTensors named = load_safetensors(batch_path);
  Tensors fields = tensors_of(named, 'x');
  for (const at::Tensor& target : tensors_of(named, 'y')) fields.push_back(target);
  model.train_on_batch(data::Example(fields));
  model.save(to);
}

void predict(const std::string& model_path, const std::string& inputs_path,
             const std::string& outputs_path) {
  const at::NoGradGuard no_grad;
  const Model model = load_model(model_path, {.compile = false});
  const Tensors inputs = tensors_of(load_safetensors(inputs_path), 'x');
  save_safetensors(outputs_path, numbered("y", model.call(inputs, Call{})));
}

/// The network of this name, with weights of a file.
void predict_application(const std::string& name, const std::string& weights,
                         const std::string& inputs_path, const std::string& outputs_path) {
  const at::NoGradGuard no_grad;
  for (const Application& application : all_applications()) {
    if (application.name != name) continue;
    applications::Options options = application_options(application.size);
    options.weights = weights;
    const Tensors inputs = tensors_of(load_safetensors(inputs_path), 'x');
    save_safetensors(outputs_path, numbered("y", application.make(options).call(inputs, Call{})));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "write") {
    write_all(arguments[1]);
  } else if (arguments.size() == 2 && arguments[0] == "applications") {
    write_applications(arguments[1]);
  } else if (arguments.size() == 4 && arguments[0] == "predict") {
    predict(arguments[1], arguments[2], arguments[3]);
  } else if (arguments.size() == 5 && arguments[0] == "predict_application") {
    predict_application(arguments[1], arguments[2], arguments[3], arguments[4]);
  } else if (arguments.size() == 4 && arguments[0] == "step") {
    step(arguments[1], arguments[2], arguments[3]);
  } else {
    std::cerr << "usage: strata_models_tool write FOLDER | applications FOLDER | predict MODEL "
                 "INPUTS OUTPUTS | predict_application NAME WEIGHTS INPUTS OUTPUTS | step MODEL "
                 "BATCH OUT\n";
    return 2;
  }
}
