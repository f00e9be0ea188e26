#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/headeronly/version.h>

#include <string_view>
#include <type_traits>

/// The one place that knows how libtorch 2.11 to 2.15 differ; every other file is written once.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11,
              "strata needs libtorch 2.11 or newer (2.11 to 2.15 are tested)");

/// For #if: is the engine at least version `major`.`minor`?
#define STRATA_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||         \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace strata::tensor {

inline constexpr std::string_view kDebugInfoName = "STRATA_RANDOM_STREAM";

/// The slot of libtorch's travelling thread-local state that holds our random stream. 2.15 lets
/// anyone make a slot; 2.11 has a fixed list, of which libtorch itself leaves PRODUCER_INFO unused.
template <typename Kind = c10::DebugInfoKind>
Kind random_stream_slot() {
  if constexpr (std::is_enum_v<Kind>) {
    return Kind::PRODUCER_INFO;
  } else {
    return Kind(&kDebugInfoName);
  }
}

}  // namespace strata::tensor
