#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suites/step_data.h"

namespace strata::bench {

/// A case of suite step.
struct StepCase {
  enum class Rows { kNone, kPixels, kWords, kPhotos };

  std::string name;   ///< "transformer-bf16"
  std::string model;  ///< What workers and peers call it: "transformer".
  Rows rows;
  int64_t
      features;  ///< Of a row. Words: those that a model reads, and where it predicts, one more.
  int64_t classes;
  int batch = kStepBatch;  ///< Of each replica.
  bool zeros = true;       ///< Four of five pixels are.
  bool bf16 = false;       ///< Products in bfloat16.
  /// A model that people train, measured by step_model_systems, at other batches too. False: a
  /// loop around a small network, measured by step_systems.
  bool trains_model = false;
};

/// All cases, in the order in which they run.
const std::vector<StepCase>& step_cases();

}  // namespace strata::bench
