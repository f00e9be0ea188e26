#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <string>
#include <string_view>

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

/// StableHLO as text. @param code  Must outlive it; not changed, but the interface has no const there.
inline PJRT_Program program_of(std::string& code) {
  static constexpr std::string_view kFormat = "mlir";
  auto program = sized<PJRT_Program>(PJRT_Program_STRUCT_SIZE);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

}  // namespace strata::pjrt
