#pragma once

#include <memory>
#include <utility>

#include "runtime/parameter_store.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"

namespace strata::detail {

/// Trained variables are on parameter servers, which update them; replicas have copies of what a
/// step has brought from there.
class RemotePlacement final : public VariablePlacement {
 public:
  /// @param workers  That train the same variables.
  RemotePlacement(std::shared_ptr<ParameterStore> store, Workers workers)
      : store_(std::move(store)), workers_(workers) {}

  ParameterStore* store() const override { return store_.get(); }
  Workers workers() const override { return workers_; }

 private:
  const std::shared_ptr<ParameterStore> store_;
  const Workers workers_;
};

}  // namespace strata::detail
