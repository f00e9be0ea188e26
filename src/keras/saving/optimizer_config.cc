#include "strata/keras/saving.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/join.h"
#include "core/letter_case.h"
#include "keras_files/model_layout.h"
#include "strata/keras/config.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizers.h"

namespace strata::optimizers {
namespace {

/// A number of which 0 means "off"; Keras says null.
template <typename T>
struct OrNull {
  T* value;
};
template <typename T>
Json to_config(const OrNull<T>& number) {
  return *number.value == 0 ? Json() : Json(*number.value);
}
template <typename T>
void from_config(const Json& json, OrNull<T>& number) {
  if (json.is_null()) {
    *number.value = 0;
  } else {
    keras::from_config(json, *number.value);
  }
}

template <typename Config, typename T>
void or_null(Config& config, const char* key, T& value) {
  OrNull<T> number{&value};
  config(key, number);
}

/// What all optimizers have, then what this one has.
template <typename Config, typename Options>
void visit(Config& config, Options& options) {
  config("learning_rate", options.learning_rate);
  or_null(config, "weight_decay", options.weight_decay);
  or_null(config, "clipnorm", options.clipnorm);
  or_null(config, "global_clipnorm", options.global_clipnorm);
  or_null(config, "clipvalue", options.clipvalue);
  config("use_ema", options.use_ema);
  config("ema_momentum", options.ema_momentum);
  or_null(config, "ema_overwrite_frequency", options.ema_overwrite_frequency);
  or_null(config, "loss_scale_factor", options.loss_scale_factor);
  or_null(config, "gradient_accumulation_steps", options.gradient_accumulation_steps);
  // Keras has no such option, and refuses a file that asks for it.
  if (options.touched_rows_only || std::is_same_v<Config, keras::ConfigReader>) {
    config("touched_rows_only", options.touched_rows_only);
  }
  Options::Rule::visit_options(
      [&](const char* key, auto& value) {
        if (std::string_view(key) == "rms_rate") {
          or_null(config, key, value);
        } else {
          config(key, value);
        }
      },
      options);
  if constexpr (requires { options.skip_list; }) config("skip_list", options.skip_list);
  if constexpr (requires { options.exclude_layers; }) {
    config("exclude_layers", options.exclude_layers);
    config("exclude_embeddings", options.exclude_embeddings);
    or_null(config, "adam_weight_decay", options.adam_weight_decay);
  }
  if constexpr (requires { options.relative_step; }) {
    config("relative_step", options.relative_step);
  }
  // Of Keras 2.
  config.only("decay", 0.0);
  config.ignore("jit_compile");
  config.ignore("is_legacy_optimizer");
}

template <typename Config>
void visit(Config& config, LossScaleOptions& options) {
  config("initial_scale", options.initial_scale);
  config("dynamic_growth_steps", options.dynamic_growth_steps);
  // Older files have the options of all optimizers here, without effect.
  config.only("dynamic", true);
  config.only("use_ema", false);
  config.only("ema_momentum", 0.99);
}

/// A class of optimizers.
struct Kind {
  std::string_view class_name;
  Json (*write)(const Optimizer&);  // null: of another class
  std::unique_ptr<Optimizer> (*make)(const keras::ObjectJson&);
};

template <typename O>
Json write(const Optimizer& optimizer) {
  const auto* known = dynamic_cast<const O*>(&optimizer);
  if (known == nullptr) return {};
  auto options = known->options();
  if (!optimizer.follows_schedule()) options.learning_rate = optimizer.learning_rate();
  keras::ConfigWriter writer;
  visit(writer, options);
  return writer.take();
}

template <typename O>
std::unique_ptr<Optimizer> make(const keras::ObjectJson& object) {
  std::remove_cvref_t<decltype(std::declval<O>().options())> options;
  keras::ConfigReader reader(object.config, object.class_name);
  visit(reader, options);
  reader.ignore("name");
  reader.finish();
  return std::make_unique<O>(options);
}

Json write_loss_scale(const Optimizer& optimizer) {
  const auto* known = dynamic_cast<const LossScaleOptimizer*>(&optimizer);
  if (known == nullptr) return {};
  LossScaleOptions options = known->options();
  keras::ConfigWriter writer;
  visit(writer, options);
  Json json = writer.take();
  json.set("inner_optimizer", keras::to_config(known->inner_optimizer()));
  return json;
}

std::unique_ptr<Optimizer> make_loss_scale(const keras::ObjectJson& object) {
  LossScaleOptions options;
  Json inner;
  keras::ConfigReader reader(object.config, object.class_name);
  visit(reader, options);
  reader("inner_optimizer", inner);
  reader.ignore("name");
  reader.finish();
  STRATA_CHECK(
      !inner.is_null(), kDataLoss,
      "[keras] config of LossScaleOptimizer: got no option 'inner_optimizer', which has no "
      "default");
  return std::make_unique<LossScaleOptimizer>(keras::optimizer_from_config(inner), options);
}

template <typename... O>
std::vector<Kind> kinds_of(OptimizerList<O...>) {
  std::vector<Kind> all = {{O::class_name(), write<O>, make<O>}...};
  all.push_back({"LossScaleOptimizer", write_loss_scale, make_loss_scale});
  std::ranges::sort(all, {}, &Kind::class_name);
  return all;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = kinds_of(AllOptimizers());
  return kKinds;
}

}  // namespace
}  // namespace strata::optimizers

namespace strata::keras {

Json to_config(const optimizers::Optimizer& optimizer) {
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    const Json options = kind.write(optimizer);
    if (options.is_null()) continue;
    Json config = Json::object();
    config.set("name", keras_files::to_snake_case(kind.class_name));
    for (const auto& [key, value] : options.as_object()) config.set(key, value);
    return make_object("keras.optimizers", kind.class_name, std::move(config));
  }
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[keras] config of optimizer ", optimizer.name(),
                      ": got a user-defined class, which Keras does not have"));
}

std::unique_ptr<optimizers::Optimizer> optimizer_from_config(const Json& json) {
  ObjectJson object = parse_object(json, "an optimizer");
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    if (strata::detail::lower_case(kind.class_name) ==
        strata::detail::lower_case(object.class_name)) {
      object.class_name = kind.class_name;
      return kind.make(object);
    }
  }
  throw Error(
      ErrorCode::kUnimplemented,
      str_cat("[keras] config of an optimizer: got ", object.class_name, "; expected one of ",
              join(optimizers::kinds(), &optimizers::Kind::class_name)));
}

}  // namespace strata::keras
