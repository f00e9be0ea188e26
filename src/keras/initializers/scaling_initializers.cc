// Initializers whose variance follows from the numbers of inputs and outputs.

#include <algorithm>
#include <cmath>
#include <utility>

#include "keras/initializers/initializer_classes.h"
#include "keras/initializers/random_fill.h"

namespace strata::initializers {

template <typename Config, typename Options>
void visit_seed_and_axes(Config& config, Options& options) {
  visit_seed(config, options.seed);
  config.unless("input_axes", options.input_axes, {});
  config.unless("output_axes", options.output_axes, {});
}
template <typename Config>
void visit(Config& config, VarianceScalingOptions& options) {
  config("scale", options.scale);
  config("mode", options.mode);
  config("distribution", options.distribution);
  visit_seed_and_axes(config, options);
}
template <typename Config>
void visit(Config& config, ScalingOptions& options) {
  visit_seed_and_axes(config, options);
}

namespace {

struct Fans {
  double in = 1, out = 1;
};

double product(at::IntArrayRef sizes) {
  double result = 1;
  for (const int64_t size : sizes) result *= static_cast<double>(size);
  return result;
}

double product_of(at::IntArrayRef shape, const std::vector<int64_t>& axes) {
  const auto rank = static_cast<int64_t>(shape.size());
  double result = 1;
  for (const int64_t axis : axes) {
    STRATA_CHECK(axis >= -rank && axis < rank, kInvalidArgument, "[initializers] got axis ", axis,
                 " for shape ", shape, "; expected one of its ", rank, " axes");
    result *= static_cast<double>(shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)]);
  }
  return result;
}

Fans fans_of(at::IntArrayRef shape, const VarianceScalingOptions& options) {
  if (options.input_axes) {
    return {product_of(shape, *options.input_axes), product_of(shape, *options.output_axes)};
  }
  if (shape.empty()) return {};
  const auto last = static_cast<double>(shape.back());
  if (shape.size() == 1) return {last, last};
  const double receptive_field = product(shape.slice(0, shape.size() - 2));
  return {receptive_field * static_cast<double>(shape[shape.size() - 2]), receptive_field * last};
}

double variance_of(at::IntArrayRef shape, const VarianceScalingOptions& options) {
  const Fans fans = fans_of(shape, options);
  double fan = (fans.in + fans.out) / 2;
  if (options.mode == "fan_in") fan = fans.in;
  if (options.mode == "fan_out") fan = fans.out;
  return options.scale / std::max(1.0, fan);
}

at::Tensor draw(const Draw& draw, const VarianceScalingOptions& options) {
  const double stddev = std::sqrt(variance_of(draw.shape, options));
  if (options.distribution == "uniform") {
    const double limit = std::sqrt(3.0) * stddev;
    return draw_uniform(draw, -limit, limit);
  }
  if (options.distribution == "untruncated_normal") return draw_normal(draw, 0, stddev);
  constexpr double kLeftByCut = 0.87962566103423978;  // standard deviation of a normal cut at 2
  return draw_truncated_normal(draw, 0, stddev / kLeftByCut);
}

VarianceScalingOptions checked(VarianceScalingOptions options) {
  constexpr auto kWhere = "[initializers] VarianceScaling";
  if (options.distribution == "normal") options.distribution = "truncated_normal";
  STRATA_CHECK(options.scale > 0, kInvalidArgument, kWhere, ": got scale ", options.scale,
               "; expected one above 0");
  options.mode.check(kWhere);
  options.distribution.check(kWhere);
  return options;
}

Initializer::Function drawing(std::string name, VarianceScalingOptions options) {
  STRATA_CHECK(options.input_axes.has_value() == options.output_axes.has_value(), kInvalidArgument,
               "[initializers] ", name, ": got one of input_axes and output_axes; expected both");
  return [name = std::move(name), options = std::move(options)](at::IntArrayRef shape,
                                                                at::ScalarType dtype) {
    return draw({name, shape, dtype, options.seed}, options);
  };
}

// The classes with names of their own are VarianceScaling with fixed options.
Initializer::Function drawing(const char* name, double scale, const char* mode,
                              const char* distribution, const ScalingOptions& options) {
  return drawing(name, {.scale = scale,
                        .mode = mode,
                        .distribution = distribution,
                        .seed = options.seed,
                        .input_axes = options.input_axes,
                        .output_axes = options.output_axes});
}

constexpr auto kNormal = "truncated_normal", kUniform = "uniform";

}  // namespace

VarianceScaling::VarianceScaling(const VarianceScalingOptions& options)
    : Initializer("VarianceScaling", keras::write_options(checked(options)),
                  drawing("VarianceScaling", checked(options))) {}

GlorotNormal::GlorotNormal(const ScalingOptions& options)
    : Initializer("GlorotNormal", keras::write_options(options),
                  drawing("GlorotNormal", 1, "fan_avg", kNormal, options)) {}

GlorotUniform::GlorotUniform(const ScalingOptions& options)
    : Initializer("GlorotUniform", keras::write_options(options),
                  drawing("GlorotUniform", 1, "fan_avg", kUniform, options)) {}

HeNormal::HeNormal(const ScalingOptions& options)
    : Initializer("HeNormal", keras::write_options(options),
                  drawing("HeNormal", 2, "fan_in", kNormal, options)) {}

HeUniform::HeUniform(const ScalingOptions& options)
    : Initializer("HeUniform", keras::write_options(options),
                  drawing("HeUniform", 2, "fan_in", kUniform, options)) {}

LecunNormal::LecunNormal(const ScalingOptions& options)
    : Initializer("LecunNormal", keras::write_options(options),
                  drawing("LecunNormal", 1, "fan_in", kNormal, options)) {}

LecunUniform::LecunUniform(const ScalingOptions& options)
    : Initializer("LecunUniform", keras::write_options(options),
                  drawing("LecunUniform", 1, "fan_in", kUniform, options)) {}

std::vector<Classes::Class> scaling_classes() {
  using keras::make_rule;
  return {
      {"VarianceScaling", make_rule<Initializer, VarianceScaling, VarianceScalingOptions>},
      {"GlorotNormal", make_rule<Initializer, GlorotNormal, ScalingOptions>},
      {"GlorotUniform", make_rule<Initializer, GlorotUniform, ScalingOptions>},
      {"HeNormal", make_rule<Initializer, HeNormal, ScalingOptions>},
      {"HeUniform", make_rule<Initializer, HeUniform, ScalingOptions>},
      {"LecunNormal", make_rule<Initializer, LecunNormal, ScalingOptions>},
      {"LecunUniform", make_rule<Initializer, LecunUniform, ScalingOptions>},
  };
}

}  // namespace strata::initializers
