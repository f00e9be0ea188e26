#pragma once

#include "core/cpu_isa.h"

namespace strata::kernels {

/// Which products and convolutions run in replica functions on this processor: libtorch's or those
/// of this module.
struct KernelChoice {
  bool own_products = false;
  bool own_convolutions = false;
  /// Where the row was measured, for logs and bug reports.
  const char* measured_on = "";
};

/// From a table in the source of what was measured, by CPUID alone (instruction sets and family):
/// never by the vendor's name, and never by timing at run time, so that processes on processors of
/// one kind always choose alike. A processor that the table lacks takes the row of its instruction
/// set. Threads: any.
const KernelChoice& kernel_choice();

namespace detail {

/// The row for a processor. @param family  As CPUID's leaf 1 says, the extended family added.
const KernelChoice& kernel_choice_for(CpuIsa isa, int family);

}  // namespace detail

}  // namespace strata::kernels
