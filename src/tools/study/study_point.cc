#include "tools/study/study_point.h"

#include <algorithm>

#include "strata/core/error.h"

namespace strata::tools {
namespace {

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> number_at(const Json& json, const char* name) {
  const Json& value = json.at(name);
  if (value.is_null()) return std::nullopt;
  return value.as_double();
}

/// Images/s of the pair in turns: a machine that slows down slows both.
Spread measure_limit(const Configuration& configuration, StudyRunner& runner) {
  Configuration together = configuration;
  together.repeat = 1;
  Configuration apart = together;
  apart.strategy = StudyStrategy::kIndependent;
  apart.servers = 0;
  std::vector<double> quotients;
  for (int round = 0; round < configuration.repeat; ++round) {
    const double rate = runner.measure(together).rate();
    quotients.push_back(rate / runner.measure(apart).rate());
  }
  return spread_of(quotients);
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
  Json limit;
  if (vs_limit) {
    limit = Json::object();
    limit.set("median", vs_limit->median).set("low", vs_limit->low).set("high", vs_limit->high);
  }
  json.set("vs_limit", std::move(limit));
  return json;
}

StudyPoint StudyPoint::from_json(const Json& json) {
  StudyPoint point{.measurement = Measurement::from_json(json)};
  point.best = json.at("best").as_bool();
  point.synthetic_rate = number_at(json, "synthetic_images_per_second");
  if (const Json& limit = json.at("vs_limit"); !limit.is_null()) {
    point.vs_limit = Spread{.median = limit.at("median").as_double(),
                            .low = limit.at("low").as_double(),
                            .high = limit.at("high").as_double()};
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
    compare(points);
    for (size_t i = begin; i < points.size(); ++i) done(points[i]);
  }
  return points;
}

}  // namespace strata::tools
