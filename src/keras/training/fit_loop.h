#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keras/training/trainer.h"
#include "keras/training/training_run.h"
#include "strata/strategies/distributed_dataset.h"

namespace strata::keras::detail {

using Callbacks = std::vector<callbacks::CallbackRef>;

/// The batches of a run: passes over a dataset, one behind the other, `k` batches at a time, with a
/// place that can be saved.
class BatchFeed {
 public:
  using Parts = std::vector<DistributedDataset::Element>;

  /// @param continuous  A pass continues from epoch to epoch. One that ends in the middle of an
  ///                    epoch ends it; the next epoch begins the next pass.
  BatchFeed(DistributedDataset data, bool continuous)
      : data_(std::move(data)), continuous_(continuous) {}

  /// The next up to `count` batches; fewer where the pass ends.
  /// @param epoch_begins  Nothing of the epoch was taken yet.
  Parts next(int64_t count, bool epoch_begins);
  /// The first batch, which `next` will give, too; unset: it does not exist.
  std::optional<DistributedDataset::Element> peek();
  /// Starts pass `pass`, unless that is where it is and nothing of it was read.
  void start(int64_t pass);

  int64_t cardinality() const { return data_.cardinality(); }
  std::string position() const;
  void restore(const std::string& position);

 private:
  std::optional<DistributedDataset::Element> next_one(bool epoch_begins);

  DistributedDataset data_;
  bool continuous_;
  int64_t pass_ = 0;
  std::optional<DistributedDataset::Iterator> iterator_;
  std::optional<DistributedDataset::Element> peeked_;
  std::string peeked_position_;  // before it
};

/// A call of `fit`.
class FitLoop final : public TrainingRun {
 public:
  FitLoop(Model model, const data::Dataset& data, FitOptions options);

  /// @param backed_up  Set to true when there is a state to go on from.
  History run(bool* backed_up = nullptr);
  std::vector<std::pair<std::string, Tracked>> state() override;

 private:
  class Place;

  void train_epoch();
  void agree();
  void end_epoch();
  Logs::Values validate();

  FitOptions options_;
  Trainer& trainer_;
  Callbacks callbacks_;
  BatchFeed feed_;
  bool shares_logs_ = false;  ///< Processes work out every batch's logs together.
  std::shared_ptr<Place> place_;
  Logs last_logs_;
};

/// Makes the strategy's other processes fail with what is being handled: they may be waiting for
/// this one. Of what all of them throw, as where a job is asked to stop, they know already.
void fail_step(const Model& model);

/// `body`, whose errors outside replica functions (in input, in callbacks) reach the strategy's
/// other processes as those within do.
template <typename Body>
auto with_other_workers(const Model& model, const Body& body) {
  try {
    return body();
  } catch (...) {
    fail_step(model);
    throw;
  }
}

/// `fit`: one FitLoop, or, where the strategy is elastic, as many as it takes.
History fit(const Model& model, const data::Dataset& data, FitOptions options);

/// Callbacks belong to a run while it lasts.
class ScopedCallbacks {
 public:
  ScopedCallbacks(const Callbacks& callbacks, TrainingRun& run);
  ~ScopedCallbacks();
  ScopedCallbacks(const ScopedCallbacks&) = delete;
  ScopedCallbacks& operator=(const ScopedCallbacks&) = delete;

 private:
  const Callbacks& callbacks_;
};

/// A call of `evaluate`, or the validation in `fit`, whose callbacks are attached to that.
class TestLoop final : public TrainingRun {
 public:
  TestLoop(Model model, const data::Dataset& data, int64_t steps, Callbacks callbacks, int verbose);
  Logs run();
  std::vector<std::pair<std::string, Tracked>> state() override { return {}; }

 private:
  int64_t max_steps_;
  Callbacks callbacks_;
  BatchFeed feed_;
};

class PredictLoop final : public TrainingRun {
 public:
  PredictLoop(Model model, const data::Dataset& data, PredictOptions options);
  Tensors run();
  std::vector<std::pair<std::string, Tracked>> state() override { return {}; }

 private:
  using Element = DistributedDataset::Element;
  using Predictions = PerReplica<std::vector<Tensors>>;

  void build(const Element& first);
  Predictions execute(const BatchFeed::Parts& batches);

  PredictOptions options_;
  int64_t at_once_;
  BatchFeed feed_;
};

/// One step with a batch, outside every run. @return What the metrics are since their last reset.
Logs one_batch(const Model& model, const data::Example& batch, bool training);

/// 0, 1 or 2, of what the user asked for; 0 in all processes but the chief.
int verbosity(const Model& model, int verbose);

}  // namespace strata::keras::detail
