#include "keras/ops/interpolate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "strata/core/error.h"

namespace strata::keras::detail {
namespace {

/// [dcb|abcd|cba]
at::Tensor mirrored(const at::Tensor& index, int64_t size) {
  const int64_t s = size - 1;
  if (s == 0) return at::zeros_like(index);
  return ((index + s).remainder(2 * s) - s).abs();
}

/// Where an index outside is found.
at::Tensor index_inside(const at::Tensor& index, int64_t size, const std::string& mode) {
  if (mode == "wrap") return index.remainder(size);
  if (mode == "mirror") return mirrored(index, size);
  if (mode == "reflect") return (mirrored(2 * index + 1, 2 * size + 1) - 1).floor_divide(2);
  return index.clamp(0, size - 1);
}

struct Neighbour {
  at::Tensor index;   ///< Whole numbers.
  at::Tensor weight;  ///< Undefined: 1.
};

std::vector<Neighbour> neighbours(const at::Tensor& at, int64_t order) {
  if (order == 0) {  // halves go away from zero
    return {{(at.sign() * (at.abs() + 0.5).floor()).to(at::kLong), {}}};
  }
  const at::Tensor low = at.floor(), above = at - low;
  const at::Tensor index = low.to(at::kLong);
  return {{index, 1 - above}, {index + 1, above}};
}

}  // namespace

at::Tensor interpolate(const at::Tensor& input, const Tensors& coordinates,
                       const InterpolationRule& rule) {
  const std::string& mode = rule.fill_mode;
  STRATA_CHECK(rule.order == 0 || rule.order == 1, kInvalidArgument,
               "[keras] map_coordinates: got order ", rule.order, "; expected 0 or 1");
  STRATA_CHECK(mode == "constant" || mode == "nearest" || mode == "wrap" || mode == "mirror" ||
                   mode == "reflect",
               kInvalidArgument, "[keras] map_coordinates: got fill_mode '", mode,
               "'; expected 'constant', 'nearest', 'wrap', 'mirror' or 'reflect'");
  struct Corner {
    at::Tensor place, valid, weight;
  };
  std::vector<Corner> corners(1);
  for (size_t d = 0; d < coordinates.size(); ++d) {
    const int64_t size = input.size(static_cast<int64_t>(d) + 2);
    std::vector<Corner> more;
    for (const Corner& corner : corners) {
      for (const Neighbour& each : neighbours(coordinates[d], rule.order)) {
        const at::Tensor inside = index_inside(each.index, size, mode);
        Corner next = corner;
        next.place = corner.place.defined() ? corner.place * size + inside : inside;
        if (mode == "constant") {
          const at::Tensor valid = (each.index >= 0).logical_and(each.index < size);
          next.valid = corner.valid.defined() ? corner.valid.logical_and(valid) : valid;
        }
        if (each.weight.defined()) {
          next.weight = corner.weight.defined() ? corner.weight * each.weight : each.weight;
        }
        more.push_back(std::move(next));
      }
    }
    corners = std::move(more);
  }
  const at::Tensor flat = input.flatten(2);
  at::Tensor sum;
  for (const Corner& corner : corners) {
    const at::Tensor place =
        corner.place.unsqueeze(1).expand({-1, input.size(1), corner.place.size(1)});
    at::Tensor value = flat.gather(2, place);
    if (corner.valid.defined()) {
      value = at::where(corner.valid.unsqueeze(1), value, rule.fill_value).to(value.scalar_type());
    }
    if (corner.weight.defined()) value = value * corner.weight.unsqueeze(1);
    sum = sum.defined() ? sum + value : value;
  }
  return at::isIntegralType(input.scalar_type(), true) && sum.is_floating_point()
             ? (sum.sign() * (sum.abs() + 0.5).floor()).to(input.scalar_type())
             : sum.to(input.scalar_type());
}

}  // namespace strata::keras::detail
