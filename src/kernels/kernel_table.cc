#include "kernels/kernel_table.h"

#include <algorithm>
#include <cstdlib>

namespace strata::kernels {
namespace {

constexpr KernelRow kRows[] = {
#include "kernels/kernel_table.inc"
};

int distance(const KernelRow& row, int family, int model) {
  constexpr int kFamily = 1 << 8;  // models have 8 bits
  const int models =
      row.family != family ? 0 : std::max({row.first_model - model, model - row.last_model, 0});
  return std::abs(row.family - family) * kFamily + models;
}

}  // namespace

std::span<const KernelRow> kernel_rows() { return kRows; }

const KernelRow& nearest_row(CpuIsa isa, int family, int model) {
  const KernelRow* best = nullptr;
  for (const KernelRow& row : kRows) {
    if (row.isa != isa) continue;
    if (best == nullptr || distance(row, family, model) < distance(*best, family, model)) {
      best = &row;
    }
  }
  return *best;  // there is a row for each instruction set, which a test checks
}

bool is_exact(const KernelRow& row, CpuIsa isa, int family, int model) {
  return row.isa == isa && distance(row, family, model) == 0;
}

}  // namespace strata::kernels
