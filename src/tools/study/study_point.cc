#include "tools/study/study_point.h"

#include <algorithm>

#include "strata/core/error.h"
#include "tools/study/tensorflow_peer.h"

namespace strata::tools {
namespace {

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> number_at(const Json& json, const char* name) {
  const Json& value = json.at(name);
  if (value.is_null()) return std::nullopt;
  return value.as_double();
}

/// Ours over the other's rate, in turns: a machine that slows down slows both.
/// @param other  Gets a configuration that is timed once.
Spread quotients_in_turns(const Configuration& configuration, StudyRunner& runner,
                          const std::function<double(const Configuration&)>& other) {
  Configuration once = configuration;
  once.repeat = 1;
  std::vector<double> quotients;
  for (int round = 0; round < configuration.repeat; ++round) {
    const double rate = runner.measure(once).rate();
    quotients.push_back(rate / other(once));
  }
  return spread_of(quotients);
}

Spread measure_limit(const Configuration& configuration, StudyRunner& runner) {
  return quotients_in_turns(configuration, runner, [&](Configuration apart) {
    apart.strategy = StudyStrategy::kIndependent;
    apart.servers = 0;
    return runner.measure(apart).rate();
  });
}

BesideTensorflow measure_beside_tensorflow(const Configuration& configuration,
                                           StudyRunner& runner) {
  BesideTensorflow beside;
  std::vector<double> rates;
  beside.quotient = quotients_in_turns(configuration, runner, [&](const Configuration& once) {
    const TensorflowRate found = runner.measure_in_tensorflow(once);
    beside.version = found.version;
    rates.push_back(found.images_per_second);
    return found.images_per_second;
  });
  beside.images_per_second = spread_of(rates).median;
  return beside;
}

Json json_of(const Spread& spread) {
  return Json::object()
      .set("median", spread.median)
      .set("low", spread.low)
      .set("high", spread.high);
}

Spread spread_from(const Json& json) {
  return {.median = json.at("median").as_double(),
          .low = json.at("low").as_double(),
          .high = json.at("high").as_double()};
}

}  // namespace

std::optional<double> StudyPoint::input_loss() const {
  if (!synthetic_rate) return std::nullopt;
  return 1 - measurement.rate() / *synthetic_rate;
}

Json StudyPoint::to_json() const {
  Json json = measurement.to_json();
  json.set("best", best).set("speedup", number_or_null(speedup));
  json.set("efficiency", number_or_null(efficiency));
  json.set("synthetic_images_per_second", number_or_null(synthetic_rate));
  json.set("input_loss", number_or_null(input_loss()));
  json.set("vs_limit", vs_limit ? json_of(*vs_limit) : Json());
  Json beside;
  if (tensorflow) {
    beside = Json::object();
    beside.set("version", tensorflow->version);
    beside.set("images_per_second", tensorflow->images_per_second);
    beside.set("quotient", json_of(tensorflow->quotient));
  }
  json.set("tensorflow", std::move(beside));
  return json;
}

StudyPoint StudyPoint::from_json(const Json& json) {
  StudyPoint point{.measurement = Measurement::from_json(json)};
  point.best = json.at("best").as_bool();
  point.synthetic_rate = number_at(json, "synthetic_images_per_second");
  if (const Json& limit = json.at("vs_limit"); !limit.is_null()) {
    point.vs_limit = spread_from(limit);
  }
  if (const Json& beside = json.at("tensorflow"); !beside.is_null()) {
    point.tensorflow =
        BesideTensorflow{.version = beside.at("version").as_string(),
                         .images_per_second = beside.at("images_per_second").as_double(),
                         .quotient = spread_from(beside.at("quotient"))};
  }
  point.speedup = number_at(json, "speedup");
  point.efficiency = number_at(json, "efficiency");
  return point;
}

bool same_series(const StudyPoint& a, const StudyPoint& b) {
  const auto common = [](const StudyPoint& point) {
    Configuration configuration = point.measurement.configuration;
    configuration.replicas = 0;
    configuration.servers = 0;
    return configuration;
  };
  return common(a) == common(b) && a.measurement.processor == b.measurement.processor;
}

void compare(std::vector<StudyPoint>& points) {
  const auto replicas_of = [](const StudyPoint& point) {
    return point.measurement.configuration.replicas;
  };
  for (StudyPoint& point : points) {
    const StudyPoint* first = nullptr;
    bool others = false;
    for (const StudyPoint& other : points) {
      if (!same_series(point, other)) continue;
      others = others || replicas_of(other) != replicas_of(point);
      if (!other.best) continue;
      if (first == nullptr || replicas_of(other) < replicas_of(*first)) first = &other;
    }
    point.speedup.reset();
    point.efficiency.reset();
    // Several replicas alone have nothing to be compared with.
    if (first == nullptr || (replicas_of(*first) > 1 && !others)) continue;
    point.speedup = point.measurement.rate() / (first->measurement.rate() / replicas_of(*first));
    point.efficiency = *point.speedup / replicas_of(point);
  }
}

std::vector<StudyPoint> run_study(const StudyOptions& options, StudyRunner& runner,
                                  const std::function<void(const StudyPoint&)>& done) {
  const std::vector<Configuration> all = all_configurations(options);
  const auto differ_in_servers = [](Configuration a, const Configuration& b) {
    a.servers = b.servers;
    return a == b;
  };
  std::vector<StudyPoint> points;
  for (size_t begin = 0; begin < all.size(); begin = points.size()) {
    for (size_t i = begin; i < all.size() && differ_in_servers(all[begin], all[i]); ++i) {
      points.push_back({.measurement = runner.measure(all[i]), .best = false});
    }
    StudyPoint& best = *std::max_element(
        points.begin() + static_cast<std::ptrdiff_t>(begin), points.end(),
        [](const auto& a, const auto& b) { return a.measurement.rate() < b.measurement.rate(); });
    best.best = true;
    const Configuration configuration = best.measurement.configuration;
    if (!configuration.is_synthetic() && options.compare_input) {
      Configuration synthetic = configuration;
      synthetic.data = kSynthetic;
      best.synthetic_rate = runner.measure(synthetic).rate();
    }
    if (options.limit && configuration.replicas == 2 &&
        configuration.strategy != StudyStrategy::kIndependent) {
      best.vs_limit = measure_limit(configuration, runner);
    }
    if (!options.tensorflow.empty() && why_not_in_tensorflow(configuration).empty()) {
      best.tensorflow = measure_beside_tensorflow(configuration, runner);
    }
    compare(points);
    for (size_t i = begin; i < points.size(); ++i) done(points[i]);
  }
  return points;
}

}  // namespace strata::tools
