#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "strata/keras/class_name.h"
#include "strata/keras/metric.h"

namespace strata::metrics {

/// Options of every metric.
struct MetricOptions {
  std::string name = {};          ///< Empty: Keras's, such as "mean_squared_error".
  std::string dtype = "float32";  ///< Saved in Keras's files; state is kept in float64.
};

/// Makes the class of that name. There is one overload for each kind of options, beside them.
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view class_name,
                                                   const MetricOptions& options);

/// One of Keras's classes; it adds only a constructor to Metric.
template <keras::ClassName kName, typename Options = MetricOptions>
class MetricClass : public Metric {
 public:
  explicit MetricClass(const Options& options = {}) : Metric(make_metric(kName.view(), options)) {}
};

}  // namespace strata::metrics
