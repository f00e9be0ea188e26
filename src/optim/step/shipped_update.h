#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/graph/graph.h"
#include "strata/optim/optimizer.h"

namespace strata::optimizers {

/// What one step needs to know: the learning rate, the six constants of PreparedStep, whether the step updates
/// (1; 0: it only accumulates), how much of the weights enters their average, and whether the average becomes the
/// weights (1).
using StepNumbers = std::array<double, 10>;

/// An optimizer as another process makes it again: the update of a step that is sent there is a call
/// of one of these.
class STRATA_API ShippedUpdate : public graph::HostSubject {
 public:
  /// Rule and options, without the learning rate; numbers are exact.
  virtual Json shipped_options() const = 0;
  virtual const std::vector<Variable>& shipped_variables() const = 0;
  /// Why another process cannot make the update; empty: it can.
  virtual std::string why_not_shipped() const = 0;
  /// The rate of the next step.
  virtual double next_rate() const = 0;
  /// Of the next `steps` steps.
  virtual std::vector<StepNumbers> next_numbers(int64_t steps) const = 0;
  /// Counts `steps` steps, which were made elsewhere, with what the rule keeps beside its slots.
  virtual void advance(int64_t steps) = 0;
  virtual int64_t finished() = 0;  ///< Optimizer::iterations.
  virtual void set_finished(int64_t iterations) = 0;
  virtual std::vector<std::pair<std::string, at::Tensor>> shipped_slots() const = 0;
  virtual void set_shipped_slot(size_t index, const at::Tensor& value) = 0;  ///< Outside `run`.
  // UpdatePass's, of all passes.
  virtual void flush_shipped() = 0;
  virtual void fetch_shipped() = 0;
};

/// What `optimizer` is to a server that updates with it.
STRATA_API ShippedUpdate& shipped_update_of(const Optimizer& optimizer);

/// The inverse of `shipped_options`, not built yet.
/// @throws Error  kInvalidArgument, kDataLoss: no such rule, or options outside their range.
STRATA_API std::unique_ptr<Optimizer> make_shipped(const Json& options, double learning_rate);

}  // namespace strata::optimizers
