#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace strata::tools {

/// libtorch, as PyPI's wheel of torch lays it out.
struct Engine {
  std::filesystem::path root;  ///< holds include/ and lib/
  std::string version;         ///< "2.15.0"
};

/// Looks where cmake/FindStrataTorch.cmake looks, in the same order: $TORCH_ROOT (alone, where it
/// is set), the torch that python3 imports, $XDG_CACHE_HOME/strata/engine/torch-*. Libraries that
/// are built with one series of libtorch (2.15, say) do not run with another.
/// @param series  The series that is wanted; "" takes any.
/// @param cuda  With its CUDA part; in the cache those alone have it whose names end in -cuda.
/// @param[out] rejected  A line for each place that has none: what it has.
/// Cost: a start of python3, some 20 ms, unless TORCH_ROOT is set.
std::optional<Engine> find_engine(const std::string& series, std::vector<std::string>& rejected,
                                  bool cuda = false);

/// The engine in `folder` (or in its torch/). @return nullopt: none, and `why` says so.
std::optional<Engine> engine_in(std::filesystem::path folder, const std::string& series, bool cuda,
                                std::string& why);

/// The series of libtorch that this command was built with.
std::string engine_series();

}  // namespace strata::tools
