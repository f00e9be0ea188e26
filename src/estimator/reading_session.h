#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/estimator/hooks.h"

namespace strata::estimator {

/// A call that reads a checkpoint and trains nothing, as its hooks see it.
class ReadingSession final : public Session {
 public:
  struct Call {
    std::string_view name;        ///< "evaluate"
    std::string_view about_loss;  ///< "has no loss"
  };
  ReadingSession(const Call& call, const RunConfig& config, int64_t global_step, bool is_chief)
      : call_(call), config_(config), global_step_(global_step), is_chief_(is_chief) {}

  int64_t global_step() const override { return global_step_; }
  const RunConfig& config() const override { return config_; }
  bool is_chief() const override { return is_chief_; }
  void save() override {
    throw Error(ErrorCode::kFailedPrecondition,
                str_cat("[estimator] Session::save: ", call_.name,
                        " saves no checkpoints; use the hook in train"));
  }
  summary::SummaryWriter* writer() override { return nullptr; }
  at::Tensor variable_value(const std::string& /*name*/) override {
    throw Error(ErrorCode::kFailedPrecondition,
                str_cat("[estimator] Session::variable_value: ", call_.name,
                        " trains no variables; use the hook in train"));
  }
  double loss_over_workers() override {
    throw Error(
        ErrorCode::kFailedPrecondition,
        str_cat("[estimator] Session::loss_over_workers: ", call_.name, " ", call_.about_loss));
  }

 private:
  const Call call_;
  const RunConfig& config_;
  const int64_t global_step_;
  const bool is_chief_;
};

/// The results of its steps are for the call alone.
class ReadingResults final : public StepResults {
 public:
  explicit ReadingResults(const ReadingSession::Call& call) : call_(call) {}

  double loss() const override {
    throw Error(ErrorCode::kFailedPrecondition,
                str_cat("[estimator] StepResults::loss: ", call_.name, " ", call_.about_loss));
  }
  bool is_ready() const override { return false; }
  std::optional<double> scalar(const std::string& /*name*/) const override { return std::nullopt; }
  std::vector<std::string> scalar_names() const override { return {}; }
  std::vector<std::pair<std::string, at::Tensor>> histograms() const override { return {}; }

 private:
  const ReadingSession::Call call_;
};

}  // namespace strata::estimator
