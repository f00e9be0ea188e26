#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/estimator/estimator.h"

namespace strata::estimator {

/// Writes a model into a new folder below `export_path`, and returns it; `checkpoint_path` is what
/// was evaluated.
using ExportFn = std::function<std::string(Estimator& estimator, const std::string& export_path,
                                           const std::string& checkpoint_path)>;

/// Exports evaluated checkpoints, into model_dir/export/<name>. Source: tf.estimator.Exporter.
class STRATA_API Exporter {
 public:
  explicit Exporter(std::string name);
  virtual ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  const std::string& name() const { return name_; }
  /// @param is_the_final_export  Training is done.
  /// @return The folder that was written; unset: none.
  virtual std::optional<std::string> export_model(Estimator& estimator,
                                                  const std::string& export_path,
                                                  const std::string& checkpoint_path,
                                                  const Evaluation& evaluation,
                                                  bool is_the_final_export) = 0;

 private:
  std::string name_;
};

struct ExporterOptions {
  std::string name;
  /// How the model is written: export_checkpoint, or a function of the program's.
  ExportFn export_fn;
  /// The newest folders that are kept; 0: all.
  int64_t exports_to_keep = 5;
};

/// Exports every evaluated checkpoint. Source: tf.estimator.LatestExporter.
class STRATA_API LatestExporter : public Exporter {
 public:
  explicit LatestExporter(ExporterOptions options);
  std::optional<std::string> export_model(Estimator& estimator, const std::string& export_path,
                                          const std::string& checkpoint_path,
                                          const Evaluation& evaluation,
                                          bool is_the_final_export) override;

 private:
  ExporterOptions options_;
};

/// Exports when training is done. Source: tf.estimator.FinalExporter.
class STRATA_API FinalExporter : public Exporter {
 public:
  FinalExporter(std::string name, ExportFn export_fn);
  std::optional<std::string> export_model(Estimator& estimator, const std::string& export_path,
                                          const std::string& checkpoint_path,
                                          const Evaluation& evaluation,
                                          bool is_the_final_export) override;

 private:
  ExportFn export_fn_;
};

/// Whether `evaluation` is better than `best`.
using CompareFn = std::function<bool(const Evaluation& best, const Evaluation& evaluation)>;
/// By default the smaller loss.
STRATA_API bool loss_smaller(const Evaluation& best, const Evaluation& evaluation);

/// Exports what is better than all before, in other processes too: the best is read from the events
/// of the evaluation with `eval_name` in model_dir. Source: tf.estimator.BestExporter.
class STRATA_API BestExporter : public Exporter {
 public:
  explicit BestExporter(ExporterOptions options, CompareFn compare_fn = loss_smaller,
                        std::string eval_name = {});
  std::optional<std::string> export_model(Estimator& estimator, const std::string& export_path,
                                          const std::string& checkpoint_path,
                                          const Evaluation& evaluation,
                                          bool is_the_final_export) override;

 private:
  ExporterOptions options_;
  CompareFn compare_;
  std::string eval_name_;
  bool has_read_events_ = false;
  std::optional<Evaluation> best_;
};

/// Copies the variables of the model (not those of optimizers) from a checkpoint into
/// `<export_path>/<seconds since 1970>`: `variables.safetensors`, by Estimator::variable_names, and
/// `model.json` with the global step. It exists whole or not at all; others have names of
/// later seconds.
/// @throws Errors of core/file_system.h. kAlreadyExists: ten names in a row are taken.
STRATA_API std::string export_checkpoint(Estimator& estimator, const std::string& export_path,
                                         const std::string& checkpoint_path);

}  // namespace strata::estimator
