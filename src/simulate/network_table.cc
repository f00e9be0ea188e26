#include "simulate/network_table.h"

#include <numeric>

#include "strata/core/error.h"

namespace strata::simulate {
namespace {

constexpr double kMostSeconds = 1e9;                 // of a layer
constexpr int64_t kMostElements = int64_t{1} << 40;  // of a variable
constexpr size_t kMostVariables = size_t{1} << 20;   // of a network: no sum of bytes overflows

double seconds_of(const Json& layer, const char* name) {
  const double seconds = layer.at(name).as_double();
  STRATA_CHECK(seconds >= 0 && seconds <= kMostSeconds, kInvalidArgument, "got ", seconds, " for ",
               name, "; expected a number that is not negative, at most ", kMostSeconds);
  return seconds;
}

Layer layer_of(const Json& json) {
  Layer layer{.name = json.at("name").as_string(),
              .forward_seconds = seconds_of(json, "forward_seconds"),
              .backward_seconds = seconds_of(json, "backward_seconds")};
  if (const Json* variables = json.find("variables")) {
    for (const Json& variable : variables->as_array()) {
      ps::VariableSpec spec{.name = variable.at("name").as_string()};
      int64_t elements = 1;
      for (const Json& size : variable.at("shape").as_array()) {
        spec.shape.push_back(size.as_int());
        STRATA_CHECK(size.as_int() > 0, kInvalidArgument, "got size ", size.as_int(),
                     " of variable ", spec.name, "; expected 1 or more");
        STRATA_CHECK(size.as_int() <= kMostElements / elements, kInvalidArgument, "got variable ",
                     spec.name, " of more than ", kMostElements, " elements; expected fewer");
        elements *= size.as_int();
      }
      layer.variables.push_back(std::move(spec));
    }
  }
  return layer;
}

}  // namespace

double NetworkTable::forward_seconds() const {
  double sum = 0;
  for (const Layer& layer : layers) sum += layer.forward_seconds;
  return sum;
}

double NetworkTable::backward_seconds() const {
  double sum = 0;
  for (const Layer& layer : layers) sum += layer.backward_seconds;
  return sum;
}

std::vector<ps::VariableSpec> NetworkTable::variables() const {
  std::vector<ps::VariableSpec> all;
  for (const Layer& layer : layers) {
    all.insert(all.end(), layer.variables.begin(), layer.variables.end());
  }
  return all;
}

int64_t NetworkTable::bytes() const {
  int64_t sum = 0;
  for (const ps::VariableSpec& variable : variables()) sum += num_bytes(variable);
  return sum;
}

NetworkTable NetworkTable::with_step_seconds(double seconds) const {
  NetworkTable scaled = *this;
  const double factor = seconds / step_seconds();
  for (Layer& layer : scaled.layers) {
    layer.forward_seconds *= factor;
    layer.backward_seconds *= factor;
  }
  return scaled;
}

Json NetworkTable::to_json() const {
  Json json = Json::object();
  json.set("name", name);
  json.set("source", source);
  json.set("batch", batch);
  Json all = Json::array();
  for (const Layer& layer : layers) {
    Json one = Json::object();
    one.set("name", layer.name);
    one.set("forward_seconds", layer.forward_seconds);
    one.set("backward_seconds", layer.backward_seconds);
    Json variables = Json::array();
    for (const ps::VariableSpec& variable : layer.variables) {
      Json shape = Json::array();
      for (const int64_t size : variable.shape) shape.push_back(size);
      Json spec = Json::object();
      spec.set("name", variable.name);
      spec.set("shape", std::move(shape));
      variables.push_back(std::move(spec));
    }
    one.set("variables", std::move(variables));
    all.push_back(std::move(one));
  }
  json.set("layers", std::move(all));
  return json;
}

NetworkTable NetworkTable::from_json(const std::string& text) {
  std::string where = "[simulate] network: ";
  try {
    const Json json = Json::parse(text);
    NetworkTable table{.name = json.at("name").as_string(),
                       .source = json.find("source") ? json.at("source").as_string() : "",
                       .batch = json.at("batch").as_int(),
                       .layers = {}};
    STRATA_CHECK(table.batch > 0, kInvalidArgument, "got batch ", table.batch,
                 "; expected 1 or more");
    for (const Json& layer : json.at("layers").as_array()) {
      where = str_cat("[simulate] network: layer ", table.layers.size(), ": ");
      table.layers.push_back(layer_of(layer));
    }
    where = "[simulate] network: ";
    STRATA_CHECK(
        table.step_seconds() > 0, kInvalidArgument, "got ", table.layers.size(),
        " layers that take no time; expected forward_seconds and backward_seconds above 0");
    STRATA_CHECK(!table.variables().empty(), kInvalidArgument,
                 "got no variables; expected a layer with \"variables\": "
                 "[{\"name\": \"kernel\", \"shape\": [3, 3, 64, 64]}]");
    return table;
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidArgument, str_cat(where, error.what()));
  }
}

}  // namespace strata::simulate
