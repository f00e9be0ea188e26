#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "strata/keras/config.h"
#include "strata/keras/losses.h"

// What each loss class keeps in its config, by Keras's names.
namespace strata::losses {

/// Options that Keras takes but leaves out of its own configs: written where they matter.
template <typename Config, typename T>
void unless_default(Config& config, const char* key, T& value, const T& standard) {
  if constexpr (std::is_same_v<Config, keras::ConfigWriter>) {
    if (value == standard) return;
  }
  config(key, value);
}

template <typename Config, typename Options>
void visit_common(Config& config, Options& options) {
  config("name", options.name);
  config("reduction", options.reduction);
  config.ignore("dtype");
}

template <typename Config>
void visit(Config& config, LossOptions& options) {
  visit_common(config, options);
}
template <typename Config>
void visit(Config& config, SparseCategoricalCrossentropyOptions& options) {
  visit_common(config, options);
  config("from_logits", options.from_logits);
  config("ignore_class", options.ignore_class);
  unless_default(config, "axis", options.axis, int64_t{-1});
}
template <typename Config>
void visit(Config& config, CrossentropyLossOptions& options) {
  visit_common(config, options);
  config("from_logits", options.from_logits);
  config("label_smoothing", options.label_smoothing);
  config("axis", options.axis);
}
template <typename Config>
void visit(Config& config, CategoricalFocalCrossentropyOptions& options) {
  visit_common(config, options);
  config("from_logits", options.from_logits);
  config("label_smoothing", options.label_smoothing);
  config("axis", options.axis);
  config("alpha", options.alpha);
  config("gamma", options.gamma);
}
template <typename Config>
void visit(Config& config, BinaryFocalCrossentropyOptions& options) {
  visit_common(config, options);
  config("from_logits", options.from_logits);
  config("label_smoothing", options.label_smoothing);
  config("axis", options.axis);
  config("apply_class_balancing", options.apply_class_balancing);
  config("alpha", options.alpha);
  config("gamma", options.gamma);
}
template <typename Config>
void visit(Config& config, HuberOptions& options) {
  visit_common(config, options);
  unless_default(config, "delta", options.delta, 1.0);
}
template <typename Config>
void visit(Config& config, CosineSimilarityOptions& options) {
  visit_common(config, options);
  unless_default(config, "axis", options.axis, int64_t{-1});
}

/// Null for none, a number for one.
template <typename Config>
void visit_axis(Config& config, std::vector<int64_t>& axis) {
  if constexpr (std::is_same_v<Config, keras::ConfigWriter>) {
    if (axis.size() == 1) return config("axis", axis[0]);
    config("axis", axis.empty() ? Json() : keras::to_config(axis));
  } else {
    Json json;
    config("axis", json);
    if (json.is_null()) return;
    if (json.is_int()) {
      axis = {json.as_int()};
    } else {
      keras::from_config(json, axis);
    }
  }
}
template <typename Config>
void visit(Config& config, DiceLossOptions& options) {
  visit_common(config, options);
  visit_axis(config, options.axis);
}
template <typename Config>
void visit(Config& config, TverskyLossOptions& options) {
  visit_common(config, options);
  config("alpha", options.alpha);
  config("beta", options.beta);
  visit_axis(config, options.axis);
}
template <typename Config>
void visit(Config& config, CircleLossOptions& options) {
  visit_common(config, options);
  config("gamma", options.gamma);
  config("margin", options.margin);
  config("remove_diagonal", options.remove_diagonal);
}
template <typename Config>
void visit(Config& config, CategoricalGeneralizedCrossEntropyOptions& options) {
  visit_common(config, options);
  config("q", options.q);
}

}  // namespace strata::losses
