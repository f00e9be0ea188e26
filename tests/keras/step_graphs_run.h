#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "keras/training/step_graphs.h"
#include "strata/keras/model.h"
#include "strata/strategies/strategy.h"
#include "strata/tensor/fingerprint.h"

namespace strata::test {

/// How the steps of a test's run are executed: as they are written, or as graphs from the third call on.
enum class Steps { kEager, kGraphs };

/// Compiles, and makes the graphs come as soon as they can: a short test has no time for them else.
inline void compile(const keras::Model& model, keras::CompileOptions options, Steps steps) {
  options.run_eagerly = steps == Steps::kEager;
  model.compile(std::move(options));
  model->graphs().record_at_once();
}

/// SHA-256 of the weights, of what the optimizer keeps, and of every number that fit has reported.
inline std::string fingerprint_of(const keras::Model& model, const keras::History& history) {
  std::vector<at::Tensor> all = model->get_weights();
  for (const auto& [name, slot] : model.optimizer().slots()) all.push_back(slot);
  for (const auto& [name, values] : history.history) all.push_back(at::tensor(values, at::kDouble));
  return tensor::fingerprint(all);
}

}  // namespace strata::test
