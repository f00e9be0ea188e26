#include "core/cpu_isa.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include "strata/core/error.h"

namespace strata {

bool cpu_supports(CpuIsa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case CpuIsa::kBaseline:
      return true;
    case CpuIsa::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case CpuIsa::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0;
  }
  return false;
#else
  return isa == CpuIsa::kBaseline;
#endif
}

namespace detail {

CpuIsa chosen_cpu_isa(const char* name, bool (*supports)(CpuIsa)) {
  constexpr std::array<std::string_view, kNumCpuIsas> kNames = {"baseline", "avx2", "avx512"};
  const bool held = name != nullptr && *name != '\0';
  bool known = false;
  for (int i = kNumCpuIsas - 1; i >= 0; --i) {
    const auto isa = static_cast<CpuIsa>(i);
    const bool named = held && kNames[static_cast<size_t>(i)] == name;
    known = known || named;
    if ((named || !held) && supports(isa)) return isa;
  }
  STRATA_CHECK(known, kInvalidArgument, "[cpu_isa] STRATA_CPU_ISA: got '", name,
               "'; expected baseline, avx2 or avx512");
  STRATA_CHECK(false, kFailedPrecondition, "[cpu_isa] STRATA_CPU_ISA: got '", name,
               "', which this processor does not run; name a narrower one, or none for the widest");
}

}  // namespace detail

CpuIsa best_cpu_isa() {
  static const CpuIsa best = detail::chosen_cpu_isa(std::getenv("STRATA_CPU_ISA"));
  return best;
}

}  // namespace strata
