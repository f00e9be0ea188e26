#include "tools/study/measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "strata/core/error.h"

namespace strata::tools {

Spread spread_of(std::vector<double> values) {
  STRATA_DCHECK(!values.empty());
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {.median = median, .low = values.front(), .high = values.back()};
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

double number_or_nan(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.as_double();
}

Json Measurement::to_json() const {
  Json json = configuration.to_json();
  const Spread spread = spread_of(images_per_second);
  Json rates = Json::array();
  for (const double each : images_per_second) rates.push_back(each);
  json.set("images_per_second", spread.median).set("low", spread.low).set("high", spread.high);
  json.set("samples", std::move(rates)).set("step_seconds", step_seconds());
  json.set("input_seconds", input_seconds);
  Json of_parts;
  if (parts) {
    of_parts = Json::object();
    of_parts.set("forward", parts->forward).set("backward", parts->backward);
    of_parts.set("communication", parts->communication).set("update", parts->update);
  }
  json.set("part_seconds", std::move(of_parts)).set("loss", finite_or_null(loss));
  json.set("parameters", parameters).set("parameter_bytes", parameter_bytes);
  Json bytes = Json::array();
  for (const int64_t each : server_bytes) bytes.push_back(each);
  json.set("server_bytes", std::move(bytes)).set("processor", processor).set("cores", cores);
  return json;
}

Measurement Measurement::from_json(const Json& json) {
  Measurement m{.configuration = Configuration::from_json(json), .images_per_second = {}};
  for (const Json& each : json.at("samples").as_array()) {
    m.images_per_second.push_back(each.as_double());
  }
  STRATA_CHECK(!m.images_per_second.empty(), kDataLoss,
               "[strata study] got a result without samples; expected at least one");
  m.input_seconds = json.at("input_seconds").as_double();
  if (const Json& parts = json.at("part_seconds"); !parts.is_null()) {
    m.parts = StepParts{.forward = parts.at("forward").as_double(),
                        .backward = parts.at("backward").as_double(),
                        .communication = parts.at("communication").as_double(),
                        .update = parts.at("update").as_double()};
  }
  m.loss = number_or_nan(json.at("loss"));
  m.parameters = json.at("parameters").as_int();
  m.parameter_bytes = json.at("parameter_bytes").as_int();
  for (const Json& each : json.at("server_bytes").as_array()) {
    m.server_bytes.push_back(each.as_int());
  }
  m.processor = json.at("processor").as_string();
  m.cores = static_cast<int>(json.at("cores").as_int());
  return m;
}

Measurement added(const std::vector<Measurement>& each) {
  Measurement sum = each.at(0);
  for (size_t i = 1; i < each.size(); ++i) {
    const size_t samples = std::min(sum.images_per_second.size(), each[i].images_per_second.size());
    sum.images_per_second.resize(samples);
    for (size_t k = 0; k < samples; ++k) sum.images_per_second[k] += each[i].images_per_second[k];
  }
  return sum;
}

}  // namespace strata::tools
