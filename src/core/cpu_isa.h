#pragma once

namespace strata {

/// The instruction sets that the kernels in src/kernels, src/tensor and src/optim are compiled for:
/// one source, three times. All give the same bits. Chosen at run time through plain function
/// pointers, not
/// ifuncs: sanitizers do not survive those.
enum class CpuIsa { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kNumCpuIsas = 3;

/// Whether this processor and its operating system run `isa`.
bool cpu_supports(CpuIsa isa);

/// The widest one that they run; decided once.
CpuIsa best_cpu_isa();

}  // namespace strata
