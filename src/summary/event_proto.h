#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "strata/summary/summary_writer.h"

// The messages of event files, as bytes: proto/tensorflow/event.proto and hparams.proto.
namespace strata::summary::detail {

/// Of the first record of a file.
std::string version_event(double wall_time);

std::string summary_event(double wall_time, int64_t step, std::string_view value);
std::string graph_event(double wall_time, std::string_view graph_def);

std::string value(std::string_view tag, std::string_view tensor, std::string_view plugin,
                  std::string_view content = {});

/// TensorBoard's server drops scalars that are not float32.
std::string float_tensor(float number);

/// float32, of no elements: what summaries hold whose plugin reads the metadata alone.
std::string no_tensor();

/// float64, [rows, columns].
std::string double_tensor(std::span<const double> numbers, int64_t rows, int64_t columns);

std::string string_tensor(std::string_view text);
std::string string_tensor(std::span<const std::string> texts);

std::string graph_def(const GraphDef& graph);

std::string session_start(const std::map<std::string, HparamValue>& hparams, std::string_view group,
                          double start_time);
std::string session_end(SessionStatus status, double end_time);

}  // namespace strata::summary::detail
