#pragma once

#include <array>
#include <string>
#include <string_view>

#include "kernels/kernel_class.h"
#include "kernels/kernel_table.h"

namespace strata::kernels {

/// Raised whenever a kernel's bits change, so that the table's names tell the kernels apart.
inline constexpr int kKernelArithmetic = 3;

/// Whose kernels run in replica functions on this processor, by class of shapes.
struct KernelChoice {
  const KernelRow* row = nullptr;
  std::array<bool, kNumKernelClasses> own{};  ///< strata's

  bool operator[](KernelClass id) const { return own[index_of(id)]; }

  /// "zen4-avx512/3": the row and the kernels' arithmetic; "zen4-avx512/3 matmul=libtorch" where
  /// the environment has changed what the row says; "libtorch" where no kernel is strata's.
  /// Processes of equal names, on processors of one kind, have the same bits.
  std::string name() const;
};

/// From the table in the source of what was measured, by CPUID alone (instruction set, family,
/// model) and by what the environment overrides: never by the vendor's name, and never by timing at
/// run time, so that processes on processors of one kind always choose alike. Decided once.
/// @throws Error  kInvalidArgument: a wrong STRATA_KERNELS (or STRATA_MATMUL, STRATA_CONV).
/// Threads: any.
const KernelChoice& kernel_choice();

/// Whether strata's kernel runs for this class.
inline bool runs_own(KernelClass id) { return kernel_choice()[id]; }

/// Whether it runs for some class of the family: "matmul".
bool runs_own_of(std::string_view family);

/// The values of the variables that override the table; empty: unset.
struct KernelOverrides {
  std::string_view kernels;      ///< STRATA_KERNELS
  std::string_view matmul = {};  ///< STRATA_MATMUL, the old name of a part of it
  std::string_view conv = {};    ///< STRATA_CONV
};

/// The choice for a processor. @throws as kernel_choice.
KernelChoice choose_kernels(CpuIsa isa, int family, int model, const KernelOverrides& overrides);

}  // namespace strata::kernels
