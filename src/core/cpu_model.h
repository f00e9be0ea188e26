#pragma once

#include <string>

namespace strata {

/// What CPUID says of this processor.
struct CpuModel {
  int family = -1;        ///< with the extended family added; -1: unknown
  int model = 0;          ///< with the extended model
  std::string name = {};  ///< "AMD EPYC 9B14": for people, nothing follows from it
};

/// Decided once.
const CpuModel& cpu_model();

}  // namespace strata
