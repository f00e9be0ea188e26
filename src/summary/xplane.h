#pragma once

#include <string>

#include "strata/summary/trace.h"

namespace strata::summary::detail {

/// A tensorflow.profiler.XSpace (proto/tensorflow/xplane.proto), what TensorBoard's page
/// Profile reads.
std::string xspace(const Trace& trace, const std::string& host);

}  // namespace strata::summary::detail
