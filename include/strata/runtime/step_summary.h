#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "strata/core/export.h"
#include "strata/summary/summary_writer.h"

namespace strata::summary {

/// Writes what a step computes: in a function (strata::function, `fit`) each is a node, which every replay
/// writes again. Of several replicas the process's first writes (recording.h).
///
///     const at::Tensor count = at::zeros({}, at::kLong);
///     const auto step = strata::function([&](const at::Tensor& x) {
///       ...
///       summary::write_scalar(writer, "loss", loss, count);
///       count.add_(1);
///     });
///
/// @param writer  Lives as long as the function is called.
/// @param value  One element; of a histogram any number.
/// @param step  One element: a number of the program's would be the same in all replays.
/// @throws Error  kInvalidArgument: another number of elements. As SummaryWriter.
/// Source: tf.summary.scalar, histogram in a tf.function.
STRATA_API void write_scalar(SummaryWriter& writer, std::string_view tag, const at::Tensor& value,
                             const at::Tensor& step);
STRATA_API void write_histogram(SummaryWriter& writer, std::string_view tag,
                                const at::Tensor& values, const at::Tensor& step,
                                int64_t buckets = 30);

}  // namespace strata::summary
