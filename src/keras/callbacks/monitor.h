#pragma once

#include <optional>
#include <string>

#include "strata/keras/callback.h"
#include "strata/keras/callbacks/early_stopping.h"

namespace strata::callbacks::detail {

/// Whether `value` is better than `best` by more than `min_delta`. @param best  Unset: it is.
/// @param who  Of the callback, for messages.
/// @throws Error kInvalidArgument: kAuto, and the name does not say which way is better.
bool is_improvement(const std::string& who, const std::string& monitor, Mode mode, double min_delta,
                    double value, std::optional<double> best);

/// The value, or none, with a warning that lists what there is.
std::optional<double> monitored(const std::string& who, const std::string& monitor,
                                const keras::Logs& logs);

}  // namespace strata::callbacks::detail
