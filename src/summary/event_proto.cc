#include "summary/event_proto.h"

#include <bit>

#include "core/proto_wire.h"

namespace strata::summary::detail {
namespace {

using strata::detail::put_bytes;
using strata::detail::put_double;
using strata::detail::put_fixed;
using strata::detail::put_integer;

enum class TensorType : int64_t { kFloat = 1, kDouble = 2, kString = 7 };

std::string shape_message(std::span<const int64_t> shape) {
  std::string message;
  for (const int64_t size : shape) {
    std::string dim;
    if (size != 0) put_integer(1, size, dim);  // proto3 leaves zeros out
    put_bytes(2, dim, message);
  }
  return message;
}

std::string tensor_start(TensorType type, std::span<const int64_t> shape) {
  std::string message;
  put_integer(1, static_cast<int64_t>(type), message);
  put_bytes(2, shape_message(shape), message);
  return message;
}

std::string event_start(double wall_time, int64_t step) {
  std::string message;
  put_double(1, wall_time, message);
  if (step != 0) put_integer(2, step, message);
  return message;
}

std::string value_message(const HparamValue& value) {
  std::string message;
  if (const auto* number = std::get_if<double>(&value.value)) put_double(2, *number, message);
  if (const auto* text = std::get_if<std::string>(&value.value)) put_bytes(3, *text, message);
  if (const auto* flag = std::get_if<bool>(&value.value)) put_integer(4, *flag ? 1 : 0, message);
  return message;
}

}  // namespace

std::string version_event(double wall_time) {
  std::string event = event_start(wall_time, 0);
  put_bytes(3, "brain.Event:2", event);
  std::string source;
  put_bytes(1, "strata", source);
  put_bytes(10, source, event);
  return event;
}

std::string summary_event(double wall_time, int64_t step, std::string_view value) {
  std::string event = event_start(wall_time, step);
  std::string summary;
  put_bytes(1, value, summary);
  put_bytes(5, summary, event);
  return event;
}

std::string graph_event(double wall_time, std::string_view graph_def) {
  std::string event = event_start(wall_time, 0);
  put_bytes(4, graph_def, event);
  return event;
}

std::string value(std::string_view tag, std::string_view tensor, std::string_view plugin,
                  std::string_view content) {
  std::string plugin_data;
  put_bytes(1, plugin, plugin_data);
  if (!content.empty()) put_bytes(2, content, plugin_data);
  std::string metadata;
  put_bytes(1, plugin_data, metadata);
  std::string message;
  put_bytes(1, tag, message);
  put_bytes(8, tensor, message);
  put_bytes(9, metadata, message);
  return message;
}

std::string float_tensor(float number) {
  std::string message = tensor_start(TensorType::kFloat, {});
  std::string content;
  put_fixed(std::bit_cast<uint32_t>(number), content);
  put_bytes(4, content, message);
  return message;
}

std::string no_tensor() {
  const int64_t shape[] = {0};
  return tensor_start(TensorType::kFloat, shape);
}

std::string double_tensor(std::span<const double> numbers, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  std::string message = tensor_start(TensorType::kDouble, shape);
  std::string content;
  content.reserve(numbers.size() * sizeof(double));
  for (const double number : numbers) put_fixed(std::bit_cast<uint64_t>(number), content);
  if (!content.empty()) put_bytes(4, content, message);
  return message;
}

std::string string_tensor(std::string_view text) {
  std::string message = tensor_start(TensorType::kString, {});
  put_bytes(8, text, message);
  return message;
}

std::string string_tensor(std::span<const std::string> texts) {
  const int64_t shape[] = {static_cast<int64_t>(texts.size())};
  std::string message = tensor_start(TensorType::kString, shape);
  for (const std::string& text : texts) put_bytes(8, text, message);
  return message;
}

std::string graph_def(const GraphDef& graph) {
  std::string message;
  for (const GraphNode& node : graph.nodes()) {
    std::string bytes;
    put_bytes(1, node.name, bytes);
    put_bytes(2, node.op, bytes);
    for (const std::string& input : node.inputs) put_bytes(3, input, bytes);
    if (!node.device.empty()) put_bytes(4, node.device, bytes);
    if (node.output_shape) {
      std::string list, attribute, entry;
      put_bytes(7, shape_message(*node.output_shape), list);
      put_bytes(1, list, attribute);
      put_bytes(1, "_output_shapes", entry);
      put_bytes(2, attribute, entry);
      put_bytes(5, entry, bytes);
    }
    put_bytes(1, bytes, message);
  }
  std::string versions;
  put_integer(1, 22, versions);  // producer: any that every TensorBoard knows
  put_bytes(4, versions, message);
  return message;
}

std::string session_start(const std::map<std::string, HparamValue>& hparams, std::string_view group,
                          double start_time) {
  std::string info;
  for (const auto& [name, value] : hparams) {
    std::string entry;
    put_bytes(1, name, entry);
    put_bytes(2, value_message(value), entry);
    put_bytes(1, entry, info);
  }
  put_bytes(4, group, info);
  put_double(5, start_time, info);
  std::string content;
  put_bytes(3, info, content);
  return content;
}

std::string session_end(SessionStatus status, double end_time) {
  std::string info;
  put_integer(1, static_cast<int64_t>(status), info);
  put_double(2, end_time, info);
  std::string content;
  put_bytes(4, info, content);
  return content;
}

}  // namespace strata::summary::detail
