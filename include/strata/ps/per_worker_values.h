#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "strata/core/export.h"
#include "strata/ps/value.h"

namespace strata::ps {

/// What every worker has one of: an object that a factory has made there, or what a function has
/// returned. As an argument of a scheduled function it is the one of the worker that runs it. A
/// handle; when the last copy is gone, and the last call that takes it has ended, the workers
/// forget it.
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
