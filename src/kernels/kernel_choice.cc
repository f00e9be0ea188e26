#include "kernels/kernel_choice.h"

#include <iterator>

#include "core/cpu_isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace strata::kernels {
namespace {

constexpr int kAnyFamily = -1;

struct Row {
  CpuIsa isa;
  int family;
  KernelChoice choice;
};

/// The first row that fits counts. Ratios are of our kernels over libtorch 2.15's, two replicas on
/// two cores: products of an MLP's training step, convolutions of a small CNN's.
constexpr Row kRows[] = {
    // 2.0, 1.1 to 2.3: MKL takes its AVX2 path there.
    {CpuIsa::kAvx512, 0x19, {true, true, "AMD family 25 (Zen 4)"}},
    // 1.15 to 1.4, 1.4 to 1.5.
    {CpuIsa::kAvx512, 6, {true, true, "Intel family 6 with AVX-512 and AMX (Sapphire Rapids)"}},
    {CpuIsa::kAvx512, kAnyFamily, {true, true, "the nearest: another with AVX-512"}},
    // 1.03 to 1.1, 1.4 to 2.9 (libtorch held to AVX2, too).
    {CpuIsa::kAvx2, kAnyFamily, {true, true, "AMD family 25 (Zen 4), held to AVX2"}},
    // Calls instead of fused multiply-adds.
    {CpuIsa::kBaseline, kAnyFamily, {false, false, "no AVX2"}},
};

int cpu_family() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return kAnyFamily;
  const auto base = static_cast<int>(eax >> 8 & 0xF);
  return base == 0xF ? base + static_cast<int>(eax >> 20 & 0xFF) : base;
#else
  return kAnyFamily;
#endif
}

}  // namespace

namespace detail {

const KernelChoice& kernel_choice_for(CpuIsa isa, int family) {
  for (const Row& row : kRows) {
    if (row.isa != isa) continue;
    if (row.family == kAnyFamily || row.family == family) return row.choice;
  }
  return kRows[std::size(kRows) - 1].choice;
}

}  // namespace detail

const KernelChoice& kernel_choice() {
  static const KernelChoice& choice = detail::kernel_choice_for(best_cpu_isa(), cpu_family());
  return choice;
}

}  // namespace strata::kernels
