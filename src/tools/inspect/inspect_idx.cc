#include <ATen/core/Tensor.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>

#include <algorithm>
#include <iostream>

#include "strata/core/str_cat.h"
#include "strata/data/mnist.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

void print_row(int64_t number, const at::Tensor& row) {
  constexpr int64_t kShown = 12;
  const at::Tensor flat = row.flatten().to(at::kDouble);
  std::cout << "element " << number << ":";
  for (int64_t i = 0; i < std::min(flat.numel(), kShown); ++i)
    std::cout << ' ' << printed(flat[i].item<double>());
  if (flat.numel() > kShown)
    std::cout << " ... (" << printed(flat.min().item<double>()) << " to "
              << printed(flat.max().item<double>()) << ", mean "
              << printed(flat.mean().item<double>()) << ')';
  std::cout << '\n';
}

void print_idx(const InspectPath& path, const InspectOptions& options) {
  const at::Tensor all = data::read_idx_file(path.path);
  std::cout << all.scalar_type() << " of shape " << all.sizes() << '\n';
  for (int64_t i = 0; i < std::min(all.size(0), options.limit); ++i) print_row(i, all[i]);
  std::cout << counted(all.size(0), "element") << '\n';
}

bool is_idx_file(const InspectPath& path) {
  return path.start.size() >= 4 && path.start[0] == 0 && path.start[1] == 0 && path.start[2] >= 8 &&
         path.start[2] <= 0x0E && path.start[3] >= 1;
}

}  // namespace

const InspectKind kInspectIdx = {"IDX file", is_idx_file, print_idx};

}  // namespace strata::tools
