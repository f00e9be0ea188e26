#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel_class.h"

namespace strata::bench {

/// One operator at one shape. Inside a replica function it is this library's, outside libtorch's.
struct KernelCase {
  kernels::KernelClass of;
  std::string shape;
  std::function<void()> run;
};

/// Shapes of training, some for each class. Classes without a case keep what the table has by
/// default: their operators are called by Keras's layers, and not in place of libtorch's.
std::vector<KernelCase> kernel_cases();

/// `strata kernels --measure` starts it. @param arguments  A file for the row, or none.
int run_measure_kernels(const std::vector<std::string>& arguments);

}  // namespace strata::bench
