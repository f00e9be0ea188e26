#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/keras/callback.h"

namespace strata::callbacks::detail {

/// `pattern` with `{epoch}`, `{batch}` and `{<name of a log>}` filled in; what is behind a
/// colon is Python's format: "02d", ".3f", ".2e".
/// @throws Error kInvalidArgument: a name that there is not, or a format that is not understood.
std::string fill_in(const std::string& pattern, int64_t epoch, std::optional<int64_t> batch,
                    const keras::Logs& logs);

}  // namespace strata::callbacks::detail
