#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>

#include "keras/initializers/initializer_classes.h"

namespace strata::initializers {

struct ConstantValue {
  double value = 0;
};
struct IdentityGain {
  double gain = 1;
};

template <typename Config>
void visit(Config& config, ConstantValue& options) {
  config("value", options.value);
}
template <typename Config>
void visit(Config& config, IdentityGain& options) {
  config.unless("gain", options.gain, 1);  // Keras reads it, but does not write it
}

namespace {

template <typename Class>
Initializer without_options(const Json& config, const std::string& owner) {
  keras::ConfigReader(config, owner).finish();
  return Class();
}

Initializer::Function filled_with(double value) {
  return [value](at::IntArrayRef shape, at::ScalarType dtype) {
    return at::full(shape, value, at::TensorOptions(dtype));
  };
}

}  // namespace

Zeros::Zeros() : Initializer("Zeros", Json::object(), filled_with(0)) {}

Ones::Ones() : Initializer("Ones", Json::object(), filled_with(1)) {}

Constant::Constant(double value)
    : Initializer("Constant", keras::write_options(ConstantValue{value}), filled_with(value)) {}

Identity::Identity(double gain)
    : Initializer("Identity", keras::write_options(IdentityGain{gain}),
                  [gain](at::IntArrayRef shape, at::ScalarType dtype) {
                    STRATA_CHECK(shape.size() == 2, kInvalidArgument,
                                 "[initializers] Identity: got shape ", shape,
                                 "; expected that of a matrix");
                    return at::eye(shape[0], shape[1], at::TensorOptions(dtype)).mul_(gain);
                  }) {}

std::vector<Classes::Class> constant_classes() {
  return {
      {"Zeros", without_options<Zeros>, {"zero"}},
      {"Ones", without_options<Ones>, {"one"}},
      {"Constant",
       [](const Json& config, const std::string& owner) -> Initializer {
         return Constant(keras::read_options<ConstantValue>(config, owner).value);
       }},
      {"Identity",
       [](const Json& config, const std::string& owner) -> Initializer {
         return Identity(keras::read_options<IdentityGain>(config, owner).gain);
       },
       {"IdentityInitializer"}},
  };
}

}  // namespace strata::initializers
