#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::summary::detail {

/// TensorBoard opens files whose names have this.
inline constexpr std::string_view kEventFileMark = "tfevents";

/// The path of a new event file in `logdir`. TensorBoard reads the files of a run in the order of
/// their names, so its seconds are larger than those of every file there.
std::string new_event_file_path(const std::string& logdir, int64_t seconds,
                                std::string_view suffix);

/// This machine's name, "localhost" if it has none.
std::string host_name();

}  // namespace strata::summary::detail
