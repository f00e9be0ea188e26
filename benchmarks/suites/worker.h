#pragma once

#include <cstdint>
#include <string>

#include "strata/data/example.h"
#include "strata/keras/model.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/strategy.h"

namespace strata::bench {

/// Reads the harness's data file: x `[batches, batch, features]`, y `[batches, batch]`.
/// @throws Error kDataLoss: another batch than `batch` (0: any), or cut short.
data::Example read_pool(const std::string& path, int64_t batch);

/// A core and a thread a replica. @param device  "cpu"; "gpu": logical ones of the first card.
MirroredStrategy make_strategy(int replicas, const std::string& device,
                               const ReplicaOptions& replica_options = {});

/// Serves steps of Model::fit. @param rows  x `[n, 784]`, or `[n, 28, 28, 1]` for `images`; y
/// `[n]`.
void serve_fit(Strategy& strategy, const data::Example& rows, int64_t global_batch, bool images);

/// Serves steps of fit with no callbacks and metrics but the loss. @param rows  x, y.
void serve_plain_fit(const keras::Model& model, const data::Example& rows, int64_t global_batch);

/// A model of suite step: dense, transformer, lstm or resnet20.
struct StepModel {
  enum class Layers { kKeras, kTorch, kEncoder };

  std::string model;
  std::string data;                ///< The harness's file.
  Layers layers = Layers::kKeras;  ///< kTorch, kEncoder: torch::nn's modules, in a custom loop.
  bool bf16 = false;               ///< Policy mixed_bfloat16.
  bool as_function = false;        ///< Of torch::nn's modules: the step is a strata::function.
};
/// Serves its training steps.
void serve_step_model(Strategy& strategy, const StepModel& step_model);

/// Serves training steps of ResNet-50 through fit, on batches of the size that the file has.
int run_models_worker(const std::string& path, int replicas, const std::string& device);

}  // namespace strata::bench
