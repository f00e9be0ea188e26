#pragma once

#include <pjrt_c_api.h>

#include <cstddef>

namespace strata::pjrt {

/// A structure of the C interface, zero but for its size.
template <typename T>
T sized(size_t size) {
  T value{};
  value.struct_size = size;
  return value;
}

/// STRATA_PJRT_ARGUMENTS(Event_Await) is a PJRT_Event_Await_Args.
#define STRATA_PJRT_ARGUMENTS(function) \
  ::strata::pjrt::sized<PJRT_##function##_Args>(PJRT_##function##_Args_STRUCT_SIZE)

}  // namespace strata::pjrt
