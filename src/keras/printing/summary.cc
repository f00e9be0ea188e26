#include "strata/keras/printing.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "core/join.h"
#include "keras/call_options.h"
#include "keras/graph/functional.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/sequential_impl.h"
#include "keras/ops/operation.h"
#include "keras/printing/text_table.h"
#include "keras/training/training_state.h"

namespace strata::keras {
namespace {

using detail::FunctionalImpl;
using detail::Node;

int64_t console_width() {
  if (const char* columns = std::getenv("COLUMNS")) {  // NOLINT(concurrency-mt-unsafe)
    const int64_t width = std::strtoll(columns, nullptr, 10);
    if (width > 0) return width;
  }
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/// 1,234,567
std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string readable_size(double bytes) {
  constexpr std::array kUnits = {"B", "KB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 64> text = {};
  std::snprintf(text.data(), text.size(), "%.2f %s", bytes, kUnits[unit]);
  return text.data();
}

struct Size {
  int64_t params = 0;
  double bytes = 0;
};

Size size_of(const std::vector<Variable>& variables) {
  Size size;
  for (const Variable& variable : variables) {
    size.params += variable.numel();
    size.bytes += static_cast<double>(variable.numel() *
                                      static_cast<int64_t>(c10::elementSize(variable.dtype())));
  }
  return size;
}

/// Without Python's comma behind a single size.
std::string plain_shape(const Shape& shape) {
  std::string text = to_string(shape);
  if (shape.size() == 1) text.erase(text.size() - 2, 1);
  return text;
}

/// What a layer's row needs of the model around it: the calls, where there are any.
class Calls {
 public:
  void add(const FunctionalImpl& model) {
    for (const Node* node : model.graph().nodes_as_made()) {
      std::vector<const Node*>& calls = calls_[node->layer.impl().get()];
      index_.emplace(node, calls.size());
      calls.push_back(node);
    }
  }

  std::vector<const Node*> of(const Layer& layer) const {
    const auto found = calls_.find(layer.impl().get());
    return found == calls_.end() ? std::vector<const Node*>() : found->second;
  }

  /// Tensors by place, then those that the call names, by their names.
  static std::vector<size_t> in_keras_order(const Node& node) {
    std::vector<size_t> named;
    detail::collect_tensor_indices(node.options, named);
    std::vector<size_t> order;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (std::ranges::find(named, i) == named.end()) order.push_back(i);
    }
    order.insert(order.end(), named.begin(), named.end());
    return order;
  }

  std::string connections(const Layer& layer) const {
    std::vector<std::string> inputs;
    for (const Node* node : of(layer)) {
      for (const size_t i : in_keras_order(*node)) {
        const SymbolicTensor& input = node->inputs[i];
        inputs.push_back(str_cat(input.node()->layer.name(), "[", index_.at(input.node().get()),
                                 "][", input.index(), "]"));
      }
    }
    return inputs.empty() ? "-" : join(inputs);
  }

 private:
  std::unordered_map<const LayerImpl*, std::vector<const Node*>> calls_;
  std::unordered_map<const Node*, size_t> index_;
};

/// A row of layers, though it was described as a graph.
bool is_chain(const FunctionalImpl& model) {
  std::unordered_set<const LayerImpl*> layers;
  std::unordered_set<const Node*> used;
  if (model.graph().inputs().size() != 1) return false;
  for (const Node* node : model.graph().nodes()) {
    if (node->inputs.size() > 1 || !layers.insert(node->layer.impl().get()).second) return false;
    for (const SymbolicTensor& input : node->inputs) {
      if (!used.insert(input.node().get()).second) return false;
    }
  }
  return true;
}

class Summary {
 public:
  Summary(const Model& model, const SummaryOptions& options) : model_(model), options_(options) {
    const auto* functional = dynamic_cast<const FunctionalImpl*>(model.impl().get());
    connected_ = functional != nullptr && !is_chain(*functional);
    if (functional != nullptr) calls_.add(*functional);
  }

  std::string text() {
    const int64_t console = options_.console_width > 0 ? options_.console_width : console_width();
    std::string text;
    for (const std::string& line :
         detail::wrap_text(str_cat("Model: \"", model_.name(), "\""), console)) {
      text += line + "\n";
    }
    for (const Layer& layer : model_.layers()) add_rows(layer, 0, shapes_in(model_, layer));
    const std::vector<detail::TableColumn> wanted = columns(console);  // sets line_length_
    const std::string table = detail::draw_table(wanted, rows_, line_length_);
    for (size_t at = 0; at < table.size();) {
      const size_t end = table.find('\n', at);
      text += detail::cut_text(table.substr(at, end - at), console) + "\n";
      at = end + 1;
    }
    return text + sums();
  }

 private:
  std::vector<detail::TableColumn> columns(int64_t console) {
    using detail::Justify;
    std::vector<detail::TableColumn> columns = {{.title = "Layer (type)"},
                                                {.title = "Output Shape"},
                                                {.title = "Param #", .justify = Justify::kRight}};
    std::vector<double> positions = {0.45, 0.80, 1.0};
    int64_t length = 88;
    if (connected_) {
      columns.push_back({.title = "Connected to"});
      positions = {0.3, 0.56, 0.74, 1.0};
      length = 108;
    }
    if (options_.show_trainable) {
      length += 12;
      for (double& position : positions) position *= 0.90;
      positions.push_back(1.0);
      columns.push_back({.title = "Trainable", .justify = Justify::kCenter});
    }
    line_length_ = options_.line_length > 0 ? options_.line_length : std::min(length, console - 4);
    int64_t current = 0;
    for (size_t i = 0; i < columns.size(); ++i) {
      columns[i].width =
          static_cast<int64_t>(positions[i] * static_cast<double>(line_length_)) - current;
      STRATA_CHECK(columns[i].width >= 4, kInvalidArgument, "[keras] summary: got ", line_length_,
                   " columns; expected more for ", columns.size(), " columns of a table");
      current += columns[i].width;
    }
    return columns;
  }

  /// Output shapes of a layer that is in `model`; empty: not known.
  std::vector<Shape> shapes_in(const Model& model, const Layer& layer) const {
    const auto* row = dynamic_cast<const detail::SequentialImpl*>(model.impl().get());
    if (row != nullptr && row->input()) {
      std::vector<Shape> shapes = {row->input()->shape()};
      for (const Layer& each : row->layers()) {
        shapes = each->output_shapes(shapes);
        if (each == layer) return shapes;
      }
    }
    for (const Calls* each : {&calls_, &inner_}) {
      if (const std::vector<const Node*> calls = each->of(layer); !calls.empty()) {
        return calls.back()->shapes;
      }
    }
    if (layer->built() && !layer->build_shapes().empty()) {
      return layer->output_shapes(layer->build_shapes());
    }
    return {};
  }

  static std::string shape_text(const Layer& layer, const std::vector<Shape>& shapes) {
    if (shapes.empty()) return "?";
    if (shapes.size() == 1) return plain_shape(shapes[0]);
    // Attention gives Python a tuple, others a list.
    const bool is_list = !layer->class_name().ends_with("Attention");
    const std::string text = join(shapes, plain_shape);
    return is_list ? "[" + text + "]" : "(" + text + ")";
  }

  /// One class is called otherwise in files.
  static std::string_view python_class(const Layer& layer) {
    const std::string_view name = layer->class_name();
    return name == "GroupQueryAttention" ? "GroupedQueryAttention" : name;
  }

  void add_rows(const Layer& layer, size_t level, const std::vector<Shape>& shapes) {
    std::string prefix;
    for (size_t i = 0; i < level; ++i) prefix += "   ";
    if (level > 0) prefix += "└ ";
    const bool is_operation = detail::as_operation(layer) != nullptr;
    const std::string params = is_operation || detail::as_input(layer) != nullptr || layer->built()
                                   ? with_commas(layer->count_params())
                                   : "0 (unbuilt)";
    std::vector<std::string> row = {str_cat(prefix, layer.name(), " (", python_class(layer), ")"),
                                    shape_text(layer, shapes), params};
    if (connected_) row.push_back(calls_.connections(layer));
    if (options_.show_trainable) {
      row.emplace_back(layer->weights().empty() ? "-" : layer->trainable() ? "Y" : "N");
    }
    rows_.push_back(std::move(row));
    const auto nested = std::dynamic_pointer_cast<ModelImpl>(layer.impl());
    if (!options_.expand_nested || nested == nullptr) return;
    const Model model(nested);
    if (const auto* graph = dynamic_cast<const FunctionalImpl*>(nested.get())) inner_.add(*graph);
    for (const Layer& each : model.layers()) add_rows(each, level + 1, shapes_in(model, each));
  }

  std::string sums() const {
    const Size trained = size_of(model_->trainable_variables());
    const Size other = size_of(model_->non_trainable_variables());
    const std::optional<detail::OptimizerSize> optimizer = detail::optimizer_size(model_);
    Size all = {.params = trained.params + other.params, .bytes = trained.bytes + other.bytes};
    if (optimizer) {
      all.params += optimizer->params;
      all.bytes += static_cast<double>(optimizer->bytes);
    }
    const auto line = [](const char* title, const Size& size) {
      return str_cat(" ", title, ": ", with_commas(size.params), " (", readable_size(size.bytes),
                     ")\n");
    };
    std::string text = line("Total params", all) + line("Trainable params", trained) +
                       line("Non-trainable params", other);
    if (optimizer) {
      text += line("Optimizer params",
                   {.params = optimizer->params, .bytes = static_cast<double>(optimizer->bytes)});
    }
    return text;
  }

  const Model& model_;
  const SummaryOptions& options_;
  bool connected_ = false;
  Calls calls_;  // of the model itself; Keras shows no connections of nested ones
  Calls inner_;
  int64_t line_length_ = 0;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace

std::string summary(const Model& model, const SummaryOptions& options) {
  return Summary(model, options).text();
}

void print_summary(const Model& model, std::ostream& out, const SummaryOptions& options) {
  out << summary(model, options);
}

}  // namespace strata::keras
