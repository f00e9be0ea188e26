#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::estimator::detail {

/// The values of a vocabulary, a line each; of a file with more than `size` the first ones.
/// @throws Error  kInvalidArgument, which begins with `where`: an empty line, no line, or fewer than `size`.
std::vector<std::string> read_vocabulary_file(const std::string& where, const std::string& path,
                                              std::optional<int64_t> size);

}  // namespace strata::estimator::detail
