// Initializers that draw without counting inputs and outputs.

#include "keras/initializers/initializer_classes.h"
#include "keras/initializers/random_fill.h"

namespace strata::initializers {

template <typename Config>
void visit(Config& config, NormalOptions& options) {
  visit_seed(config, options.seed);
  config("mean", options.mean);
  config("stddev", options.stddev);
}
template <typename Config>
void visit(Config& config, UniformOptions& options) {
  visit_seed(config, options.seed);
  config("minval", options.minval);
  config("maxval", options.maxval);
}
template <typename Config>
void visit(Config& config, OrthogonalOptions& options) {
  visit_seed(config, options.seed);
  config("gain", options.gain);
}

namespace {

void check_stddev(const char* owner, double stddev) {
  STRATA_CHECK(stddev >= 0, kInvalidArgument, "[initializers] ", owner, ": got stddev ", stddev,
               "; expected one that is not negative");
}

}  // namespace

RandomNormal::RandomNormal(const NormalOptions& options)
    : Initializer("RandomNormal", keras::write_options(options),
                  [options](at::IntArrayRef shape, at::ScalarType dtype) {
                    return draw_normal({"RandomNormal", shape, dtype, options.seed}, options.mean,
                                       options.stddev);
                  }) {
  check_stddev("RandomNormal", options.stddev);
}

TruncatedNormal::TruncatedNormal(const NormalOptions& options)
    : Initializer("TruncatedNormal", keras::write_options(options),
                  [options](at::IntArrayRef shape, at::ScalarType dtype) {
                    return draw_truncated_normal({"TruncatedNormal", shape, dtype, options.seed},
                                                 options.mean, options.stddev);
                  }) {
  check_stddev("TruncatedNormal", options.stddev);
}

RandomUniform::RandomUniform(const UniformOptions& options)
    : Initializer("RandomUniform", keras::write_options(options),
                  [options](at::IntArrayRef shape, at::ScalarType dtype) {
                    return draw_uniform({"RandomUniform", shape, dtype, options.seed},
                                        options.minval, options.maxval);
                  }) {
  STRATA_CHECK(options.minval <= options.maxval, kInvalidArgument,
               "[initializers] RandomUniform: got minval ", options.minval, " and maxval ",
               options.maxval, "; expected minval <= maxval");
}

Orthogonal::Orthogonal(const OrthogonalOptions& options)
    : Initializer(
          "Orthogonal", keras::write_options(options),
          [options](at::IntArrayRef shape, at::ScalarType dtype) {
            return draw_orthogonal({"Orthogonal", shape, dtype, options.seed}).mul_(options.gain);
          }) {}

std::vector<Classes::Class> random_classes() {
  using keras::make_rule;
  return {
      {"RandomNormal", make_rule<Initializer, RandomNormal, NormalOptions>, {"normal"}},
      {"TruncatedNormal", make_rule<Initializer, TruncatedNormal, NormalOptions>},
      {"RandomUniform", make_rule<Initializer, RandomUniform, UniformOptions>, {"uniform"}},
      {"Orthogonal",
       make_rule<Initializer, Orthogonal, OrthogonalOptions>,
       {"OrthogonalInitializer"}},
  };
}

}  // namespace strata::initializers
