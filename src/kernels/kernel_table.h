#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "kernels/kernel_class.h"

namespace strata::kernels {

/// The speed of this library's kernel over that of libtorch's.
struct KernelRate {
  std::string_view of;  ///< a class's name
  double value;
};

/// By class; 0: not measured.
class KernelRates {
 public:
  constexpr KernelRates() = default;
  constexpr KernelRates(std::initializer_list<KernelRate> rates) {
    for (const KernelRate& rate : rates) values_[find(rate.of)] = rate.value;
  }
  constexpr double operator[](KernelClass id) const { return values_[index_of(id)]; }

 private:
  static constexpr size_t find(std::string_view name) {
    for (const KernelClassInfo& info : kKernelClasses) {
      if (info.name == name) return index_of(info.id);
    }
    throw "the table names a class that kKernelClasses lacks";  // the compiler's error
  }
  std::array<double, kNumKernelClasses> values_{};
};

/// What was measured on a processor.
struct KernelRow {
  std::string_view name;  ///< "zen4-avx512"
  CpuIsa isa;             ///< that the kernels ran with
  int family;             ///< of CPUID
  int first_model;
  int last_model;
  std::string_view measured_on;
  KernelRates rates;
};

/// All rows: kernel_table.inc.
std::span<const KernelRow> kernel_rows();

/// A processor's row: of its instruction set, then of the nearest family, then of the nearest
/// model; of equals the first. Never by the vendor's name.
const KernelRow& nearest_row(CpuIsa isa, int family, int model);

/// Whether the processor is one of those that the row was measured on.
bool is_exact(const KernelRow& row, CpuIsa isa, int family, int model);

}  // namespace strata::kernels
