#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"

namespace strata::keras {

/// What a callback is told of a step or an epoch: names and values, by name. The values of a step
/// are only worked out when somebody asks, since that needs all replicas' sums.
class STRATA_API Logs {
 public:
  using Values = std::vector<std::pair<std::string, double>>;

  Logs() = default;
  explicit Logs(Values values) : values_(std::move(values)) {}
  explicit Logs(std::function<Values()> compute) : compute_(std::move(compute)) {}

  /// Unset: no such value.
  std::optional<double> find(const std::string& name) const;
  /// @throws Error kNotFound: lists the names there are.
  double at(const std::string& name) const;
  /// Adds a value, or replaces the one of that name: callbacks behind this one see it.
  void set(const std::string& name, double value);
  /// Sorted by name, as Keras has them.
  const Values& values() const;

 private:
  mutable std::function<Values()> compute_;
  mutable Values values_;
};

}  // namespace strata::keras
