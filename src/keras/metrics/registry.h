#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keras_files/model_layout.h"
#include "strata/core/error.h"
#include "strata/keras/config.h"
#include "strata/keras/metric.h"

// How Keras's classes are listed. A family is a source: it says which classes there are for each
// kind of options, and has one `visit` for each kind.
namespace strata::metrics {

/// keras.config.epsilon()
inline constexpr double kEpsilon = 1e-7;

/// A class of the list, without its type.
struct Registered {
  std::string_view class_name;
  std::shared_ptr<MetricImpl> (*make)(std::string_view class_name, const Json& config);
};

/// The families.
void add_mean_metrics(std::vector<Registered>& list);
void add_confusion_metrics(std::vector<Registered>& list);
void add_auc(std::vector<Registered>& list);
void add_score_metrics(std::vector<Registered>& list);
void add_iou_metrics(std::vector<Registered>& list);

/// "accuracy", by the shapes.
std::shared_ptr<MetricImpl> make_any_accuracy();
/// The mean of a loss's values.
std::shared_ptr<MetricImpl> make_mean_of_loss(const losses::Loss& loss);

/// What metrics with a class and options have in common.
template <typename Options>
class OptionsMetric : public MetricImpl {
 public:
  /// Empty names become the class's: "AUC" is "auc".
  OptionsMetric(std::string_view class_name, Options options)
      : MetricImpl(options.name.empty() ? keras_files::to_snake_case(class_name) : options.name),
        class_name_(class_name),
        options_(std::move(options)) {}

 protected:
  std::string_view class_name() const { return class_name_; }
  const Options& options() const { return options_; }

 private:
  Json do_config() const override {
    Options options = options_;
    options.name = name();
    keras::ConfigWriter config;
    visit(config, options);
    return keras::make_object("keras.metrics", class_name_, config.take());
  }

  std::string_view class_name_;  // of a table
  Options options_;
};

/// @throws Error kUnimplemented: an option that we do not have.
template <typename Options>
Options read_options(std::string_view class_name, const Json& config) {
  Options options;
  keras::ConfigReader reader(config, str_cat(class_name, " metric"));
  visit(reader, options);
  reader.finish();
  return options;
}

template <typename Config, typename Options>
void visit_common(Config& config, Options& options) {
  config("name", options.name);
  config("dtype", options.dtype);
}

template <typename Options, std::shared_ptr<MetricImpl> (*kMake)(std::string_view, const Options&)>
void add_class(std::vector<Registered>& list, std::string_view class_name) {
  list.push_back({class_name, [](std::string_view name, const Json& config) {
                    return kMake(name, read_options<Options>(name, config));
                  }});
}

}  // namespace strata::metrics
