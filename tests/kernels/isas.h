#pragma once

#include <string>
#include <vector>

#include "core/cpu_isa.h"

namespace strata {

/// Those that this processor runs, the narrowest first.
inline std::vector<CpuIsa> supported_isas() {
  std::vector<CpuIsa> isas;
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (cpu_supports(isa)) isas.push_back(isa);
  }
  return isas;
}

inline std::string name_of(CpuIsa isa) {
  return isa == CpuIsa::kAvx512 ? "Avx512" : isa == CpuIsa::kAvx2 ? "Avx2" : "Baseline";
}

}  // namespace strata
