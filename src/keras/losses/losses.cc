#include "strata/keras/losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ne.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include "core/join.h"
#include "keras/losses/loss_configs.h"
#include "keras/losses/rule.h"
#include "strata/core/error.h"
#include "strata/keras/config.h"

namespace strata::losses {

Json to_config(const ClassFactors& factors) {
  return factors.is_list ? keras::to_config(factors.values) : Json(factors.values.at(0));
}

void from_config(const Json& json, ClassFactors& factors) {
  if (json.is_number()) {
    factors = json.as_double();
  } else {
    std::vector<double> values;
    keras::from_config(json, values);
    factors = std::move(values);
  }
}

namespace {

using at::Tensor;
using keras::ConfigReader;
using keras::ConfigWriter;

// What each class computes.

/// The functions reduce the last axis.
Tensor with_last(const Tensor& x, int64_t axis) {
  return axis == -1 || axis == x.dim() - 1 ? x : x.movedim(axis, -1);
}

template <Tensor (*kFunction)(const Tensor&, const Tensor&)>
LossValues plain(const Tensor& y_true, const Tensor& y_pred, const LossOptions&) {
  return {.values = kFunction(y_true, y_pred)};
}

LossValues sparse(const Tensor& y_true, const Tensor& y_pred,
                  const SparseCategoricalCrossentropyOptions& options) {
  Tensor labels = y_true;
  if (options.axis != -1 && labels.dim() == y_pred.dim()) labels = with_last(labels, options.axis);
  LossValues result{
      .values = sparse_categorical_crossentropy(
          labels, with_last(y_pred, options.axis),
          {.from_logits = options.from_logits, .ignore_class = options.ignore_class})};
  if (options.ignore_class) {
    result.mask = at::ne(labels, *options.ignore_class).view_as(result.values);
  }
  return result;
}

template <Tensor (*kFunction)(const Tensor&, const Tensor&, const CrossentropyOptions&)>
LossValues crossentropy(const Tensor& y_true, const Tensor& y_pred,
                        const CrossentropyLossOptions& options) {
  return {.values = kFunction(
              with_last(y_true, options.axis), with_last(y_pred, options.axis),
              {.from_logits = options.from_logits, .label_smoothing = options.label_smoothing})};
}

LossValues categorical_focal(const Tensor& y_true, const Tensor& y_pred,
                             const CategoricalFocalCrossentropyOptions& options) {
  return {.values = categorical_focal_crossentropy(with_last(y_true, options.axis),
                                                   with_last(y_pred, options.axis),
                                                   {.alpha = options.alpha,
                                                    .gamma = options.gamma,
                                                    .from_logits = options.from_logits,
                                                    .label_smoothing = options.label_smoothing})};
}

LossValues binary_focal(const Tensor& y_true, const Tensor& y_pred,
                        const BinaryFocalCrossentropyOptions& options) {
  return {.values = binary_focal_crossentropy(
              with_last(y_true, options.axis), with_last(y_pred, options.axis),
              {.alpha = options.alpha,
               .gamma = options.gamma,
               .from_logits = options.from_logits,
               .label_smoothing = options.label_smoothing,
               .apply_class_balancing = options.apply_class_balancing})};
}

LossValues huber_values(const Tensor& y_true, const Tensor& y_pred, const HuberOptions& options) {
  return {.values = huber(y_true, y_pred, options.delta)};
}

LossValues cosine(const Tensor& y_true, const Tensor& y_pred,
                  const CosineSimilarityOptions& options) {
  return {.values = losses::cosine_similarity(with_last(y_true, options.axis),
                                              with_last(y_pred, options.axis))};
}

LossValues dice_values(const Tensor& y_true, const Tensor& y_pred, const DiceLossOptions& options) {
  return {.values = dice(y_true, y_pred, options.axis)};
}

LossValues tversky_values(const Tensor& y_true, const Tensor& y_pred,
                          const TverskyLossOptions& options) {
  return {.values = tversky(y_true, y_pred,
                            {.alpha = options.alpha, .beta = options.beta, .axis = options.axis})};
}

LossValues circle_values(const Tensor& y_true, const Tensor& y_pred,
                         const CircleLossOptions& options) {
  const Tensor values = circle(y_true, y_pred,
                               {.gamma = options.gamma,
                                .margin = options.margin,
                                .remove_diagonal = options.remove_diagonal});
  return {.values = values, .mask = values > 0};
}

LossValues generalized(const Tensor& y_true, const Tensor& y_pred,
                       const CategoricalGeneralizedCrossEntropyOptions& options) {
  return {.values = categorical_generalized_cross_entropy(y_true, y_pred, options.q)};
}

// The list. `name` is that of the class's objects, `function` that of Keras's function.

template <typename Options>
struct Entry {
  std::string_view class_name, name, function;
  LossValues (*call)(const Tensor&, const Tensor&, const Options&);
};

template <typename Options>
std::span<const Entry<Options>> entries();

template <>
std::span<const Entry<LossOptions>> entries() {
  static constexpr Entry<LossOptions> kEntries[] = {
      {"MeanSquaredError", "mean_squared_error", "mean_squared_error", plain<mean_squared_error>},
      {"MeanAbsoluteError", "mean_absolute_error", "mean_absolute_error",
       plain<mean_absolute_error>},
      {"MeanAbsolutePercentageError", "mean_absolute_percentage_error",
       "mean_absolute_percentage_error", plain<mean_absolute_percentage_error>},
      {"MeanSquaredLogarithmicError", "mean_squared_logarithmic_error",
       "mean_squared_logarithmic_error", plain<mean_squared_logarithmic_error>},
      {"LogCosh", "log_cosh", "log_cosh", plain<log_cosh>},
      {"KLDivergence", "kl_divergence", "kl_divergence", plain<kl_divergence>},
      {"Poisson", "poisson", "poisson", plain<poisson>},
      {"Hinge", "hinge", "hinge", plain<hinge>},
      {"SquaredHinge", "squared_hinge", "squared_hinge", plain<squared_hinge>},
      {"CategoricalHinge", "categorical_hinge", "categorical_hinge", plain<categorical_hinge>},
      {"CTC", "ctc", "ctc", plain<ctc>},
  };
  return kEntries;
}
template <>
std::span<const Entry<SparseCategoricalCrossentropyOptions>> entries() {
  static constexpr Entry<SparseCategoricalCrossentropyOptions> kEntries[] = {
      {"SparseCategoricalCrossentropy", "sparse_categorical_crossentropy",
       "sparse_categorical_crossentropy", sparse}};
  return kEntries;
}
template <>
std::span<const Entry<CrossentropyLossOptions>> entries() {
  static constexpr Entry<CrossentropyLossOptions> kEntries[] = {
      {"BinaryCrossentropy", "binary_crossentropy", "binary_crossentropy",
       crossentropy<binary_crossentropy>},
      {"CategoricalCrossentropy", "categorical_crossentropy", "categorical_crossentropy",
       crossentropy<categorical_crossentropy>}};
  return kEntries;
}
template <>
std::span<const Entry<CategoricalFocalCrossentropyOptions>> entries() {
  static constexpr Entry<CategoricalFocalCrossentropyOptions> kEntries[] = {
      {"CategoricalFocalCrossentropy", "categorical_focal_crossentropy",
       "categorical_focal_crossentropy", categorical_focal}};
  return kEntries;
}
template <>
std::span<const Entry<BinaryFocalCrossentropyOptions>> entries() {
  static constexpr Entry<BinaryFocalCrossentropyOptions> kEntries[] = {
      {"BinaryFocalCrossentropy", "binary_focal_crossentropy", "binary_focal_crossentropy",
       binary_focal}};
  return kEntries;
}
template <>
std::span<const Entry<HuberOptions>> entries() {
  static constexpr Entry<HuberOptions> kEntries[] = {
      {"Huber", "huber_loss", "huber", huber_values}};
  return kEntries;
}
template <>
std::span<const Entry<CosineSimilarityOptions>> entries() {
  static constexpr Entry<CosineSimilarityOptions> kEntries[] = {
      {"CosineSimilarity", "cosine_similarity", "cosine_similarity", cosine}};
  return kEntries;
}
template <>
std::span<const Entry<DiceLossOptions>> entries() {
  static constexpr Entry<DiceLossOptions> kEntries[] = {{"Dice", "dice", "dice", dice_values}};
  return kEntries;
}
template <>
std::span<const Entry<TverskyLossOptions>> entries() {
  static constexpr Entry<TverskyLossOptions> kEntries[] = {
      {"Tversky", "tversky", "tversky", tversky_values}};
  return kEntries;
}
template <>
std::span<const Entry<CircleLossOptions>> entries() {
  static constexpr Entry<CircleLossOptions> kEntries[] = {
      {"Circle", "circle", "circle", circle_values}};
  return kEntries;
}
template <>
std::span<const Entry<CategoricalGeneralizedCrossEntropyOptions>> entries() {
  static constexpr Entry<CategoricalGeneralizedCrossEntropyOptions> kEntries[] = {
      {"CategoricalGeneralizedCrossEntropy", "categorical_generalized_cross_entropy", "",
       generalized}};
  return kEntries;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kAliases = {{
    {"bce", "binary_crossentropy"},
    {"BCE", "binary_crossentropy"},
    {"kld", "kl_divergence"},
    {"KLD", "kl_divergence"},
    {"mae", "mean_absolute_error"},
    {"MAE", "mean_absolute_error"},
    {"mse", "mean_squared_error"},
    {"MSE", "mean_squared_error"},
    {"mape", "mean_absolute_percentage_error"},
    {"MAPE", "mean_absolute_percentage_error"},
    {"msle", "mean_squared_logarithmic_error"},
    {"MSLE", "mean_squared_logarithmic_error"},
}};

template <typename Options>
Loss make(const Entry<Options>& entry, Options options, const std::string* given = nullptr) {
  if (options.name.empty()) options.name = entry.name;
  ConfigWriter config;
  visit(config, options);
  auto rule = std::make_shared<Loss::Rule>();
  rule->name = options.name;
  rule->reduction = options.reduction;
  rule->dtype = options.dtype;
  rule->config = given != nullptr
                     ? Json(*given)
                     : keras::make_object("keras.losses", entry.class_name, config.take());
  rule->call = [call = entry.call, options](const Tensor& y_true, const Tensor& y_pred) {
    return call(y_true, y_pred, options);
  };
  return Loss(std::move(rule));
}

/// A class without its type.
struct Registered {
  std::string_view class_name, function;
  /// @param config  Null: defaults. @param name  Empty: the class's. @param given  Not null: what
  ///     the user named it by, to be saved in place of an object.
  std::function<Loss(const Json* config, const std::string& name, const std::string* given)> make;
};

template <typename Options>
void add(std::vector<Registered>& all) {
  for (const Entry<Options>& entry : entries<Options>()) {
    all.push_back({entry.class_name, entry.function,
                   [&entry](const Json* config, const std::string& name, const std::string* given) {
                     Options options;
                     options.name = name;
                     if (config != nullptr) {
                       ConfigReader reader(*config, str_cat(entry.class_name, " loss"));
                       visit(reader, options);
                       reader.finish();
                     }
                     return losses::make(entry, options, given);
                   }});
  }
}

const std::vector<Registered>& registered() {
  static const std::vector<Registered> all = [] {
    std::vector<Registered> list;
    add<LossOptions>(list);
    add<SparseCategoricalCrossentropyOptions>(list);
    add<CrossentropyLossOptions>(list);
    add<CategoricalFocalCrossentropyOptions>(list);
    add<BinaryFocalCrossentropyOptions>(list);
    add<HuberOptions>(list);
    add<CosineSimilarityOptions>(list);
    add<DiceLossOptions>(list);
    add<TverskyLossOptions>(list);
    add<CircleLossOptions>(list);
    add<CategoricalGeneralizedCrossEntropyOptions>(list);
    return list;
  }();
  return all;
}

std::string known_losses() {
  return join(registered(), [](const Registered& each) {
    return each.function.empty() ? std::string(each.class_name)
                                 : str_cat(each.class_name, " (", each.function, ")");
  });
}

/// "crossentropy": which one is seen by the shapes.
LossValues any_crossentropy(const Tensor& y_true, const Tensor& y_pred) {
  switch (label_kind(y_true.sizes(), y_pred.sizes())) {
    case LabelKindOfShapes::kBinary:
      return {.values = binary_crossentropy(y_true, y_pred)};
    case LabelKindOfShapes::kSparse:
      return {.values = sparse_categorical_crossentropy(y_true, y_pred)};
    case LabelKindOfShapes::kCategorical:
      break;
  }
  return {.values = categorical_crossentropy(y_true, y_pred)};
}

}  // namespace

namespace detail {

template <typename Options>
Loss make_loss(std::string_view class_name, const Options& options) {
  for (const Entry<Options>& entry : entries<Options>()) {
    if (entry.class_name == class_name) return losses::make(entry, options);
  }
  strata::detail::throw_error(ErrorCode::kInternal, str_cat("no loss class ", class_name));
}

#define STRATA_MAKE_LOSS(Options) \
  template STRATA_API Loss make_loss(std::string_view, const Options&)
STRATA_MAKE_LOSS(LossOptions);
STRATA_MAKE_LOSS(SparseCategoricalCrossentropyOptions);
STRATA_MAKE_LOSS(CrossentropyLossOptions);
STRATA_MAKE_LOSS(CategoricalFocalCrossentropyOptions);
STRATA_MAKE_LOSS(BinaryFocalCrossentropyOptions);
STRATA_MAKE_LOSS(HuberOptions);
STRATA_MAKE_LOSS(CosineSimilarityOptions);
STRATA_MAKE_LOSS(DiceLossOptions);
STRATA_MAKE_LOSS(TverskyLossOptions);
STRATA_MAKE_LOSS(CircleLossOptions);
STRATA_MAKE_LOSS(CategoricalGeneralizedCrossEntropyOptions);
#undef STRATA_MAKE_LOSS

Loss loss_of_name(const std::string& name) {
  auto rule = std::make_shared<Loss::Rule>();
  if (name == "crossentropy" || name == "ce") {
    rule->name = name;
    rule->call = any_crossentropy;
    rule->config = name;
    return Loss(std::move(rule));
  }
  std::string_view wanted = name;
  for (const auto& [alias, function] : kAliases) {
    if (alias == name) wanted = function;
  }
  for (const Registered& each : registered()) {
    const bool by_function = !each.function.empty() && each.function == wanted;
    if (!by_function && each.class_name != wanted) continue;
    // Made by a function's name it has that name, by a class's the class's own.
    return each.make(nullptr, by_function ? name : "", &name);
  }
  strata::detail::throw_error(
      ErrorCode::kInvalidArgument,
      str_cat("[losses] Loss: got '", name, "'; expected one of crossentropy, ", known_losses()));
}

Loss loss_of_config(const Json& json) {
  if (json.is_string()) return loss_of_name(json.as_string());
  const keras::ObjectJson object = keras::parse_object(json, "a loss");
  // A function in place of an object: its name is the config.
  if (object.class_name == "function" && object.config.is_string()) {
    return loss_of_name(object.config.as_string());
  }
  for (const Registered& each : registered()) {
    if (each.class_name == object.class_name) return each.make(&object.config, "", nullptr);
    // A function, as keras.losses.serialize writes it.
    if (!each.function.empty() && each.function == object.class_name) {
      return loss_of_name(object.class_name);
    }
  }
  strata::detail::throw_error(ErrorCode::kUnimplemented,
                              str_cat("[keras] config of a loss: got class '", object.class_name,
                                      "'; strata has ", known_losses()));
}

}  // namespace detail
}  // namespace strata::losses
