// The data: two spirals, points in the plane of two classes that no straight line parts.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>

#include <cmath>

#include "strata/strata.h"

inline strata::data::Dataset spirals(int64_t points, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto label = at::arange(points) % 2;
  const auto radius = at::rand({points}, generator).sqrt();
  const auto angle = 9.0 * radius + M_PI * label;
  const auto point = at::stack({radius * angle.cos(), radius * angle.sin()}, 1);
  const auto noise = 0.02 * at::randn({points, 2}, generator);
  return strata::data::Dataset::from_tensor_slices({point + noise, label});
}
