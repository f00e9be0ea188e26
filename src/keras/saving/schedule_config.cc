#include <cmath>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "strata/keras/config.h"
#include "strata/keras/saving.h"

namespace strata::schedules {
namespace {

/// A number of steps, which Keras writes as an integer.
struct Steps {
  double* value;
};
Json to_config(const Steps& steps) {
  if (std::trunc(*steps.value) == *steps.value && std::abs(*steps.value) < 9e15) {
    return static_cast<int64_t>(*steps.value);
  }
  return *steps.value;
}
void from_config(const Json& json, Steps& steps) { *steps.value = json.as_double(); }

struct Target {
  double* value;
};
Json to_config(const Target& target) {
  return *target.value == CosineDecay::kNoWarmup ? Json() : Json(*target.value);
}
void from_config(const Json& json, Target& target) {
  *target.value = json.is_null() ? CosineDecay::kNoWarmup : json.as_double();
}

template <typename Config>
void steps(Config& config, const char* key, double& value) {
  Steps as_steps{&value};
  config(key, as_steps);
}

template <typename Config>
void visit(Config& config, ExponentialDecay& schedule) {
  config("initial_learning_rate", schedule.initial_learning_rate);
  steps(config, "decay_steps", schedule.decay_steps);
  config("decay_rate", schedule.decay_rate);
  config("staircase", schedule.staircase);
}

template <typename Config>
void visit(Config& config, PiecewiseConstantDecay& schedule) {
  config("boundaries", schedule.boundaries);
  config("values", schedule.values);
}

template <typename Config>
void visit(Config& config, PolynomialDecay& schedule) {
  config("initial_learning_rate", schedule.initial_learning_rate);
  steps(config, "decay_steps", schedule.decay_steps);
  config("end_learning_rate", schedule.end_learning_rate);
  config("power", schedule.power);
  config("cycle", schedule.cycle);
}

template <typename Config>
void visit(Config& config, InverseTimeDecay& schedule) {
  config("initial_learning_rate", schedule.initial_learning_rate);
  steps(config, "decay_steps", schedule.decay_steps);
  config("decay_rate", schedule.decay_rate);
  config("staircase", schedule.staircase);
}

template <typename Config>
void visit(Config& config, CosineDecay& schedule) {
  config("initial_learning_rate", schedule.initial_learning_rate);
  steps(config, "decay_steps", schedule.decay_steps);
  config("alpha", schedule.alpha);
  Target target{&schedule.warmup_target};
  config("warmup_target", target);
  steps(config, "warmup_steps", schedule.warmup_steps);
}

template <typename Config>
void visit(Config& config, CosineDecayRestarts& schedule) {
  config("initial_learning_rate", schedule.initial_learning_rate);
  steps(config, "first_decay_steps", schedule.first_decay_steps);
  config("t_mul", schedule.t_mul);
  config("m_mul", schedule.m_mul);
  config("alpha", schedule.alpha);
}

/// The `name` that Keras gives a schedule.
std::string own_name(const std::string& class_name) {
  if (class_name == "PiecewiseConstantDecay") return "PiecewiseConstant";
  return class_name == "CosineDecayRestarts" ? "SGDRDecay" : class_name;
}

template <typename S>
Schedule read(const keras::ObjectJson& object, std::initializer_list<const char*> required) {
  for (const char* key : required) {
    STRATA_CHECK(object.config.find(key) != nullptr, kDataLoss, "[keras] config of ",
                 object.class_name, ": got no option '", key, "', which has no default");
  }
  S schedule{};
  keras::ConfigReader reader(object.config, object.class_name);
  visit(reader, schedule);
  reader.ignore("name");
  reader.finish();
  return schedule;
}

}  // namespace

Json to_config(const Schedule& schedule) {
  Schedule::Value value = schedule.value();
  return std::visit(
      [&](auto& each) -> Json {
        using T = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<T, double>) {
          return each;
        } else if constexpr (std::is_same_v<T, Schedule::Function>) {
          throw Error(
              ErrorCode::kUnimplemented,
              "[keras] config of a learning rate: got a user-defined function, which no file can "
              "hold; use one of strata::schedules");
        } else {
          const std::string class_name(schedule.name());
          keras::ConfigWriter writer;
          visit(writer, each);
          writer("name", own_name(class_name));
          return keras::make_object("keras.optimizers.schedules", class_name, writer.take());
        }
      },
      value);
}

void from_config(const Json& json, Schedule& schedule) {
  if (json.is_number()) {
    schedule = json.as_double();
    return;
  }
  const keras::ObjectJson object = keras::parse_object(json, "a learning rate");
  const std::string& name = object.class_name;
  if (name == "ExponentialDecay") {
    schedule =
        read<ExponentialDecay>(object, {"initial_learning_rate", "decay_steps", "decay_rate"});
  } else if (name == "PiecewiseConstantDecay") {
    schedule = read<PiecewiseConstantDecay>(object, {"boundaries", "values"});
  } else if (name == "PolynomialDecay") {
    schedule = read<PolynomialDecay>(object, {"initial_learning_rate", "decay_steps"});
  } else if (name == "InverseTimeDecay") {
    schedule =
        read<InverseTimeDecay>(object, {"initial_learning_rate", "decay_steps", "decay_rate"});
  } else if (name == "CosineDecay") {
    schedule = read<CosineDecay>(object, {"initial_learning_rate", "decay_steps"});
  } else if (name == "CosineDecayRestarts") {
    schedule = read<CosineDecayRestarts>(object, {"initial_learning_rate", "first_decay_steps"});
  } else {
    throw Error(
        ErrorCode::kUnimplemented,
        str_cat("[keras] config of a learning rate: got schedule ", name,
                "; expected a number, ExponentialDecay, PiecewiseConstantDecay, PolynomialDecay, "
                "InverseTimeDecay, CosineDecay or CosineDecayRestarts"));
  }
}

}  // namespace strata::schedules
