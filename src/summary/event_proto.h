#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "strata/summary/graph.h"
#include "strata/summary/hparams.h"

// The messages of event files, as bytes: tensorflow/core/util/event.proto and its neighbours
// summary.proto, tensor.proto, graph.proto, and tensorboard's hparams/plugin_data.proto.
namespace strata::summary::detail {

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3; bytes graph_def =
// 4;
//                 Summary summary = 5; SourceMetadata source_metadata = 10; }
// message Summary { repeated Value value = 1; }

/// Of the first record of a file.
std::string version_event(double wall_time);

std::string summary_event(double wall_time, int64_t step, std::string_view value);
std::string graph_event(double wall_time, std::string_view graph_def);

// message Value { string tag = 1; TensorProto tensor = 8; SummaryMetadata metadata = 9; }
// message SummaryMetadata { PluginData plugin_data = 1; }
// message PluginData { string plugin_name = 1; bytes content = 2; }
// message TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2;
//                       bytes tensor_content = 4; repeated bytes string_val = 8; }
// message TensorShapeProto { repeated Dim dim = 2; }   message Dim { int64 size = 1; }

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

// message HParamsPluginData { SessionStartInfo session_start_info = 3;
//                             SessionEndInfo session_end_info = 4; }
// message SessionStartInfo { map<string, google.protobuf.Value> hparams = 1; string group_name = 4;
//                            double start_time_secs = 5; }
// message SessionEndInfo { Status status = 1; double end_time_secs = 2; }

std::string session_start(const std::map<std::string, HparamValue>& hparams, std::string_view group,
                          double start_time);
std::string session_end(SessionStatus status, double end_time);

}  // namespace strata::summary::detail
