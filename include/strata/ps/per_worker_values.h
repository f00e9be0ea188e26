#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "strata/core/export.h"
#include "strata/ps/value.h"

namespace strata::ps {

/// A value on every worker: an object that a factory has made there, or the result of a function.
/// As an argument of a scheduled function it is the value of the worker that runs it. A handle;
/// when the last copy is destroyed, and the last call that takes it has ended, the workers release
/// it.
/// Threads: any. Source: tf.distribute.coordinator.PerWorkerValues.
class STRATA_API PerWorkerValues {
 public:
  operator Value() const { return Value(*id_); }
  uint64_t number() const { return id_->number; }

  explicit PerWorkerValues(std::shared_ptr<const ResourceId> id) : id_(std::move(id)) {}

 private:
  std::shared_ptr<const ResourceId> id_;
};

}  // namespace strata::ps
