#include "keras/callbacks/monitor.h"

#include <array>
#include <cmath>
#include <string_view>

#include "core/join.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::callbacks::detail {
namespace {

// Parts of the names of Keras's metrics that are better when larger, and when smaller.
constexpr std::array<std::string_view, 16> kUp = {
    "acc",     "auc",         "precision", "recall", "iou",      "io_u",
    "_score",  "r2",          "_at_",      "true_",  "fmeasure", "cosine_similarity",
    "pearson", "concordance", "top_k",     "f1"};
constexpr std::array<std::string_view, 14> kDown = {
    "loss",    "error", "crossentropy", "divergence", "hinge", "poisson", "log_cosh",
    "logcosh", "mse",   "mae",          "rmse",       "msle",  "mape",    "false_"};

template <size_t N>
bool any_in(const std::string& name, const std::array<std::string_view, N>& parts) {
  for (std::string_view part : parts) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

bool larger_is_better(const std::string& who, const std::string& monitor, Mode mode) {
  if (mode != Mode::kAuto) return mode == Mode::kMax;
  const bool up = any_in(monitor, kUp);
  STRATA_CHECK(up || any_in(monitor, kDown), kInvalidArgument, "[callbacks] ", who,
               ": got monitor='", monitor,
               "', and its name does not tell whether more or less of it is better; pass .mode = "
               "Mode::kMax or Mode::kMin");
  return up && !any_in(monitor, std::array<std::string_view, 1>{"loss"});
}

}  // namespace

bool is_improvement(const std::string& who, const std::string& monitor, Mode mode, double min_delta,
                    double value, std::optional<double> best) {
  const bool up = larger_is_better(who, monitor, mode);
  if (!best) return true;
  const double delta = std::abs(min_delta);
  return up ? value - delta > *best : value + delta < *best;
}

std::optional<double> monitored(const std::string& who, const std::string& monitor,
                                const keras::Logs& logs) {
  const std::optional<double> value = logs.find(monitor);
  if (!value) {
    STRATA_LOG(kWarning) << "[callbacks] " << who << " watches '" << monitor
                         << "', which is not available; there are: "
                         << join(logs.values(), [](const auto& each) { return each.first; });
  }
  return value;
}

}  // namespace strata::callbacks::detail
