#pragma once

namespace strata {

/// The instruction sets that the kernels in src/kernels, src/tensor and src/optim are compiled for:
/// one source, three times. All give the same bits. Chosen at run time through plain function
/// pointers, not ifuncs: sanitizers do not survive those.
enum class CpuIsa { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kNumCpuIsas = 3;

/// Whether this processor and its operating system run `isa`. AVX2 is with FMA here.
bool cpu_supports(CpuIsa isa);

/// The widest one that they run, or STRATA_CPU_ISA (baseline, avx2 or avx512); decided once.
/// @throws Error  kInvalidArgument: STRATA_CPU_ISA is none of these. kFailedPrecondition: this
///         processor does not run it.
CpuIsa best_cpu_isa();

/// `name_avx512()`, `name_avx2()` or `name_baseline()`: what strata_kernels() (cmake/StrataKernels.cmake)
/// has compiled for `isa`.
#if defined(__x86_64__)
#define STRATA_KERNELS_FOR(isa, name)                   \
  ((isa) == ::strata::CpuIsa::kAvx512 ? name##_avx512() \
   : (isa) == ::strata::CpuIsa::kAvx2 ? name##_avx2()   \
                                      : name##_baseline())
#else
#define STRATA_KERNELS_FOR(isa, name) (static_cast<void>(isa), name##_baseline())
#endif

namespace detail {

/// The widest one, or the named one. @param name  Or null, or empty.
CpuIsa chosen_cpu_isa(const char* name, bool (*supports)(CpuIsa) = cpu_supports);

}  // namespace detail

}  // namespace strata
