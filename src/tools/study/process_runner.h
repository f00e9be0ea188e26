#pragma once

#include "tools/launch/orphan_reaper.h"
#include "tools/study/study_point.h"

namespace strata::tools {

/// Measures each configuration in new processes on this machine, as `strata launch` starts them:
/// one for a strategy within a process, else one a worker and one a parameter server. They run this
/// program.
class ProcessRunner final : public StudyRunner {
 public:
  /// Before this process has other threads. @param program  This one, strata-study.
  /// @param tensorflow  A Python that has it; empty: `measure_in_tensorflow` is not called.
  explicit ProcessRunner(std::string program, std::string tensorflow = {})
      : program_(std::move(program)), tensorflow_(std::move(tensorflow)) {}

  /// @throws Error  kCancelled: stopped by a signal. kUnavailable: a task failed, which has said
  ///   why.
  Measurement measure(const Configuration& configuration) override;
  /// @throws as `measure`.
  TensorflowRate measure_in_tensorflow(const Configuration& configuration) override;

  /// Starts a process for each task, with `words` appended to its command line, and returns the
  /// result that each worker wrote; the first is the chief's. @throws as `measure`.
  std::vector<Json> run(const Configuration& configuration, const std::vector<std::string>& words);

 private:
  std::string program_;
  std::string tensorflow_;
  OrphanReaper guard_;
};

}  // namespace strata::tools
