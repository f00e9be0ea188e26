// Activations by name and as Keras's JSON.

#include <array>
#include <string_view>
#include <utility>

#include "keras/named_rule.h"
#include "strata/keras/activations.h"

namespace strata::activations {

using at::Tensor;

struct Activation::Rule {
  std::string name;
  Json json;  // null for a function of the user's
  Function function;
};

namespace {

struct Named {
  std::string_view name;
  Tensor (*function)(const Tensor&);
  std::string_view alias = {};
};

// `threshold` is missing: without its options there is no such function.
constexpr std::array<Named, 29> kNamed = {{
    {"linear", linear},
    {"relu", [](const Tensor& x) { return activations::relu(x); }},
    {"leaky_relu", [](const Tensor& x) { return activations::leaky_relu(x); }},
    {"relu6", relu6},
    {"elu", [](const Tensor& x) { return activations::elu(x); }},
    {"celu", [](const Tensor& x) { return activations::celu(x); }},
    {"selu", selu},
    {"gelu", [](const Tensor& x) { return activations::gelu(x); }},
    {"silu", silu, "swish"},
    {"mish", mish},
    {"softplus", softplus},
    {"squareplus", [](const Tensor& x) { return activations::squareplus(x); }},
    {"sparse_plus", sparse_plus},
    {"softsign", softsign},
    {"sigmoid", sigmoid},
    {"log_sigmoid", log_sigmoid},
    {"sparse_sigmoid", sparse_sigmoid},
    {"tanh", tanh},
    {"tanh_shrink", tanh_shrink},
    {"soft_shrink", [](const Tensor& x) { return activations::soft_shrink(x); }},
    {"hard_shrink", [](const Tensor& x) { return activations::hard_shrink(x); }},
    {"hard_sigmoid", hard_sigmoid},
    {"hard_silu", hard_silu, "hard_swish"},
    {"hard_tanh", hard_tanh},
    {"exponential", exponential},
    {"softmax", [](const Tensor& x) { return activations::softmax(x); }},
    {"log_softmax", [](const Tensor& x) { return activations::log_softmax(x); }},
    {"sparsemax", [](const Tensor& x) { return activations::sparsemax(x); }},
    {"glu", [](const Tensor& x) { return activations::glu(x); }},
}};

const Named* find(std::string_view name) {
  for (const Named& each : kNamed) {
    if (each.name == name || (!name.empty() && each.alias == name)) return &each;
  }
  return nullptr;
}

std::string names() {
  std::string text;
  for (const Named& each : kNamed) {
    if (!text.empty()) text += ", ";
    text += each.name;
  }
  return text;
}

// Layers that may stand for an activation, with Keras's defaults for layers.
struct Relu : ReluOptions {
  static constexpr auto kName = "ReLU";
  Tensor operator()(const Tensor& x) const { return activations::relu(x, *this); }
};
template <typename Config>
void visit(Config& config, Relu& layer) {
  config("max_value", layer.max_value);
  config("negative_slope", layer.negative_slope);
  config("threshold", layer.threshold);
}

struct LeakyRelu {
  static constexpr auto kName = "LeakyReLU";
  double negative_slope = 0.3;
  Tensor operator()(const Tensor& x) const { return activations::leaky_relu(x, negative_slope); }
};
template <typename Config>
void visit(Config& config, LeakyRelu& layer) {
  config("negative_slope", layer.negative_slope);
}

struct Elu {
  static constexpr auto kName = "ELU";
  double alpha = 1;
  Tensor operator()(const Tensor& x) const { return activations::elu(x, alpha); }
};
template <typename Config>
void visit(Config& config, Elu& layer) {
  config("alpha", layer.alpha);
}

struct Softmax {
  static constexpr auto kName = "Softmax";
  int64_t axis = -1;
  Tensor operator()(const Tensor& x) const { return activations::softmax(x, axis); }
};
template <typename Config>
void visit(Config& config, Softmax& layer) {
  config("axis", layer.axis);
}

struct Read {
  Json json;
  Activation::Function function;
};

template <typename Layer>
bool read_layer(const keras::ObjectJson& object, Read& read) {
  if (object.class_name != Layer::kName) return false;
  Layer layer;
  keras::ConfigReader reader(object.config, str_cat("activation ", Layer::kName));
  visit(reader, layer);
  for (const char* key : {"name", "trainable", "dtype"}) reader.ignore(key);
  reader.finish();
  read.json = keras::make_object("keras.layers", Layer::kName, keras::write_options(layer));
  read.function = layer;
  return true;
}

}  // namespace

Activation::Activation(const char* name) : Activation(std::string(name)) {}

Activation::Activation(const std::string& name) {
  const Named* found = find(name);
  STRATA_CHECK(found != nullptr, kInvalidArgument, "[activations] got '", name,
               "'; expected one of ", names(), ", or a function");
  if (found->function == linear) return;
  const std::string keras_name(found->name);
  rule_ = std::make_shared<const Rule>(Rule{keras_name, Json(keras_name), found->function});
}

Activation::Activation(Function function)
    : rule_(std::make_shared<const Rule>(Rule{{}, {}, std::move(function)})) {}

Tensor Activation::operator()(const Tensor& x) const {
  return rule_ == nullptr ? x : rule_->function(x);
}

std::string Activation::name() const { return rule_ == nullptr ? "linear" : rule_->name; }

Json to_config(const Activation& activation) {
  if (activation.is_linear()) return "linear";
  STRATA_CHECK(!activation.rule_->json.is_null(), kUnimplemented,
               "[activations] to_config: got a user-defined function, which no file of Keras's can "
               "hold; use one of ",
               names());
  return activation.rule_->json;
}

void from_config(const Json& json, Activation& activation) {
  if (json.is_null()) {
    activation = Activation();
    return;
  }
  keras::ObjectJson object = keras::parse_object(json, "an activation");
  const bool is_function = object.class_name == "function" && object.config.is_string();
  if (is_function) object.class_name = object.config.as_string();
  if (is_function || json.is_string()) {
    STRATA_CHECK(find(object.class_name) != nullptr, kUnimplemented,
                 "[activations] from_config: got '", object.class_name, "'; strata has ", names());
    activation = Activation(object.class_name);
    return;
  }
  if (object.class_name == "Activation") {
    from_config(object.config.at("activation"), activation);
    return;
  }
  Read read;
  const bool known = read_layer<Relu>(object, read) || read_layer<LeakyRelu>(object, read) ||
                     read_layer<Elu>(object, read) || read_layer<Softmax>(object, read);
  STRATA_CHECK(known, kUnimplemented, "[activations] from_config: got layer '", object.class_name,
               "'; strata reads ReLU, LeakyReLU, ELU, Softmax and Activation here");
  activation.rule_ = std::make_shared<const Activation::Rule>(
      Activation::Rule{object.class_name, std::move(read.json), std::move(read.function)});
}

}  // namespace strata::activations
