#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"

namespace strata::keras {

/// The values of a step or an epoch for callbacks, by name. A step's values are computed on first
/// use only, since that needs all replicas' sums.
class STRATA_API Logs {
 public:
  using Values = std::vector<std::pair<std::string, double>>;

  Logs() = default;
  explicit Logs(Values values) : values_(std::move(values)) {}
  explicit Logs(std::function<Values()> compute) : compute_(std::move(compute)) {}

  /// Returns nothing if there is no such value.
  std::optional<double> find(const std::string& name) const;
  /// @throws Error kNotFound: lists the known names.
  double at(const std::string& name) const;
  /// Adds or replaces a value; later callbacks see it.
  void set(const std::string& name, double value);
  /// All values sorted by name, as in Keras.
  const Values& values() const;

 private:
  mutable std::function<Values()> compute_;
  mutable Values values_;
};

}  // namespace strata::keras
