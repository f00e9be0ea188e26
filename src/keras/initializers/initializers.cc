// What all initializers share: names, JSON, checks of results.

#include "strata/keras/initializers.h"

#include <utility>

#include "keras/initializers/initializer_classes.h"

namespace strata::initializers {

struct Initializer::Rule : keras::NamedRule<Function> {};

namespace {

const Classes& classes() {
  static const Classes all("initializer", [] {
    std::vector<Classes::Class> rows = constant_classes();
    for (auto part : {fourier_classes, random_classes, scaling_classes}) {
      for (Classes::Class& each : part()) rows.push_back(std::move(each));
    }
    return rows;
  }());
  return all;
}

}  // namespace

Initializer::Initializer(const char* name) : Initializer(std::string(name)) {}
Initializer::Initializer(const std::string& name) : Initializer(classes().named(name)) {}
Initializer::Initializer(Function function)
    : Initializer(std::string(), Json(), std::move(function)) {}
Initializer::Initializer(std::string class_name, Json config, Function function)
    : rule_(std::make_shared<const Rule>(
          Rule{{std::move(class_name), std::move(config), std::move(function)}})) {}

at::Tensor Initializer::operator()(at::IntArrayRef shape, at::ScalarType dtype) const {
  at::Tensor values = rule_->function(shape, dtype);
  STRATA_CHECK(
      values.defined() && values.sizes() == shape && values.scalar_type() == dtype,
      kInvalidArgument, "[initializers] the initializer gave ",
      values.defined() ? str_cat("shape ", values.sizes(), ", ", values.scalar_type()) : "nothing",
      "; expected shape ", shape, ", ", dtype);
  return values;
}

const std::string& Initializer::class_name() const { return rule_->class_name; }

Initializer Initializer::with_fan_axes(const std::vector<int64_t>& input_axes,
                                       const std::vector<int64_t>& output_axes) const {
  Json config = rule_->config;
  for (const Classes::Class& each : scaling_classes()) {
    if (each.name != class_name() || config.find("input_axes") != nullptr) continue;
    config.set("input_axes", keras::to_config(input_axes));
    config.set("output_axes", keras::to_config(output_axes));
    return each.make(config, "initializer " + each.name);
  }
  return *this;
}

Json to_config(const Initializer& initializer) { return classes().write(*initializer.rule_); }

void from_config(const Json& json, Initializer& initializer) { initializer = classes().read(json); }

}  // namespace strata::initializers
