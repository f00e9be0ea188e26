#include "keras/printing/plot_graph.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <unordered_map>

#include "core/atomic_file.h"
#include "core/join.h"
#include "keras/graph/functional.h"
#include "keras/graph/input_layer.h"
#include "keras/graph/sequential_impl.h"

namespace strata::keras {
namespace detail {
namespace {

std::string shapes_text(const std::vector<Shape>& shapes) {
  if (shapes.size() == 1) return to_string(shapes[0]);
  return '[' + join(shapes, to_string) + ']';
}

std::string dtypes_text(const std::vector<at::ScalarType>& dtypes) {
  const std::string text = join(dtypes, dtype_name);
  return dtypes.size() == 1 ? text : "[" + text + "]";
}

const ModelImpl* nested_model(const Layer& layer) {
  const auto* model = dynamic_cast<const ModelImpl*>(layer.impl().get());
  return model != nullptr && model->class_name() != "Model" ? model : nullptr;
}

/// What passes through a layer, seen from its last call.
struct Flow {
  std::vector<Shape> inputs;
  std::vector<Shape> outputs;
  std::vector<at::ScalarType> dtypes;
};

class Plotter {
 public:
  explicit Plotter(const PlotOptions& options) : options_(options) {}

  /// Adds a model's boxes and the edges between them.
  void add_model(const ModelImpl& model, const std::vector<size_t>& frames) {
    if (const auto* graph = dynamic_cast<const FunctionalImpl*>(&model)) {
      add_functional(*graph, frames);
    } else if (const auto* row = dynamic_cast<const SequentialImpl*>(&model)) {
      add_sequential(*row, frames);
    }
  }

  void add_box(const Layer& layer, const Flow& flow, const std::vector<size_t>& frames) {
    PlotGraph::Box box{.name = options_.show_layer_names ? layer.name() : "",
                       .class_name = std::string(layer->class_name()),
                       .activation = {},
                       .facts = {},
                       .trainable = -1,
                       .frames = frames};
    if (options_.show_layer_activations) {
      const Json config = as_input(layer) == nullptr && nested_model(layer) == nullptr
                              ? layer->config()
                              : Json::object();
      const Json* activation = config.find("activation");
      if (activation != nullptr && activation->is_string())
        box.activation = activation->as_string();
    }
    if (options_.show_shapes) {
      if (as_input(layer) == nullptr)
        box.facts.emplace_back("Input shape", shapes_text(flow.inputs));
      box.facts.emplace_back("Output shape", shapes_text(flow.outputs));
    }
    if (options_.show_dtype) box.facts.emplace_back("Output dtype", dtypes_text(flow.dtypes));
    if (options_.show_trainable && !layer->weights().empty()) box.trainable = layer->trainable();
    box_of_.emplace(layer.impl().get(), graph.boxes.size());
    graph.boxes.push_back(std::move(box));
  }

  PlotGraph graph;

 private:
  void add_functional(const FunctionalImpl& model, const std::vector<size_t>& frames) {
    std::unordered_map<const LayerImpl*, const Node*> last_call;
    for (const Node* node : model.graph().nodes()) last_call[node->layer.impl().get()] = node;
    for (const Layer& layer : model.layers()) {
      const Node* node = last_call.at(layer.impl().get());
      Flow flow{.inputs = {}, .outputs = node->shapes, .dtypes = node->dtypes};
      for (const SymbolicTensor& input : node->inputs) flow.inputs.push_back(input.shape());
      add_layer(layer, flow, frames);
    }
    for (const Node* node : model.graph().nodes()) {
      for (size_t i = 0; i < node->inputs.size(); ++i) {
        const SymbolicTensor& input = node->inputs[i];
        add_edge(source(input.node()->layer, input.index()), destination(node->layer, i));
      }
    }
  }

  void add_sequential(const SequentialImpl& model, const std::vector<size_t>& frames) {
    std::vector<Shape> shapes = {model.input()->shape()};
    std::vector<at::ScalarType> dtypes = {model.input()->dtype()};
    const std::vector<Layer> layers = model.layers();
    for (const Layer& layer : layers) {
      Flow flow{.inputs = shapes, .outputs = layer->output_shapes(shapes), .dtypes = {}};
      flow.dtypes = layer->output_dtypes(dtypes);
      shapes = flow.outputs;
      dtypes = flow.dtypes;
      add_layer(layer, flow, frames);
    }
    for (size_t i = 1; i < layers.size(); ++i) {
      add_edge(source(layers[i - 1], 0), destination(layers[i], 0));
    }
  }

  void add_layer(const Layer& layer, const Flow& flow, const std::vector<size_t>& frames) {
    const ModelImpl* model = options_.expand_nested ? nested_model(layer) : nullptr;
    if (model == nullptr || !model->built()) {
      add_box(layer, flow, frames);
      return;
    }
    std::vector<size_t> inner = frames;
    inner.push_back(graph.frames.size());
    graph.frames.push_back(layer.name());
    add_model(*model, inner);
  }

  bool is_expanded(const Layer& layer) const { return !box_of_.contains(layer.impl().get()); }

  /// The box that makes output `index` of a layer, which may be a model.
  size_t source(const Layer& layer, size_t index) const {
    if (!is_expanded(layer)) return box_of_.at(layer.impl().get());
    if (const auto* graph = dynamic_cast<const FunctionalImpl*>(layer.impl().get())) {
      const SymbolicTensor& output = graph->graph().outputs().at(index);
      return source(output.node()->layer, output.index());
    }
    return source(nested_model(layer)->layers().back(), 0);
  }
  size_t destination(const Layer& layer, size_t index) const {
    if (!is_expanded(layer)) return box_of_.at(layer.impl().get());
    if (const auto* graph = dynamic_cast<const FunctionalImpl*>(layer.impl().get())) {
      return destination(graph->graph().inputs().at(index).node()->layer, 0);
    }
    return destination(nested_model(layer)->layers().front(), 0);
  }

  void add_edge(size_t from, size_t to) {
    if (edges_.emplace(from, to).second) graph.edges.emplace_back(from, to);
  }

  const PlotOptions& options_;
  std::unordered_map<const LayerImpl*, size_t> box_of_;
  std::set<std::pair<size_t, size_t>> edges_;
};

/// The HTML-like label that graphviz takes.
std::string dot_label(const PlotGraph::Box& box) {
  const auto wide = std::to_string(std::max<size_t>(1, box.facts.size() + (box.trainable >= 0)));
  std::string text = R"(<<table border="0" cellborder="1" bgcolor="black" cellpadding="10">)";
  text +=
      "<tr><td colspan=\"" + wide + R"(" bgcolor="black"><font point-size="16" color="white"><b>)";
  text += box.name.empty()
              ? escape_markup(box.class_name) + "</b>"
              : escape_markup(box.name) + "</b> (" + escape_markup(box.class_name) + ")";
  text += "</font></td></tr>";
  if (!box.activation.empty()) {
    text += "<tr><td bgcolor=\"white\" colspan=\"" + wide +
            "\"><font point-size=\"14\">Activation: <b>" + escape_markup(box.activation) +
            "</b></font></td></tr>";
  }
  std::string cells;
  for (const auto& [what, value] : box.facts) {
    cells += "<td bgcolor=\"white\"><font point-size=\"14\">" + what + ": <b>" +
             escape_markup(value) + "</b></font></td>";
  }
  if (box.trainable >= 0) {
    cells += str_cat("<td bgcolor=\"", box.trainable == 1 ? "forestgreen" : "firebrick",
                     R"("><font point-size="14" color="white"><b>)",
                     box.trainable == 1 ? "Trainable" : "Non-trainable", "</b></font></td>");
  }
  if (!cells.empty()) text += "<tr>" + cells + "</tr>";
  return text + "</table>>";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace

std::string escape_markup(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

PlotGraph plot_graph(const Model& model, const PlotOptions& options) {
  STRATA_CHECK(model->built(), kFailedPrecondition, "[keras] plot_model: Model '", model.name(),
               "' has not been built yet; call it once, or give it an Input");
  Plotter plotter(options);
  if (nested_model(model) != nullptr) {
    plotter.add_model(*model, {});
  } else {  // a class of the user's: one box
    const std::vector<Shape>& inputs = model->build_shapes();
    const std::vector<at::ScalarType> dtypes(inputs.size(), model->dtype().compute_dtype());
    plotter.add_box(model,
                    {.inputs = inputs,
                     .outputs = model->output_shapes(inputs),
                     .dtypes = model->output_dtypes(dtypes)},
                    {});
  }
  return std::move(plotter.graph);
}

}  // namespace detail

std::string model_to_dot(const Model& model, const PlotOptions& options) {
  const detail::PlotGraph graph = detail::plot_graph(model, options);
  std::string text = str_cat("digraph ", detail::quoted(model.name()), " {\n");
  text += str_cat("graph [rankdir=", options.left_to_right ? "LR" : "TB",
                  ", concentrate=true, dpi=200, splines=ortho];\nnode [shape=record];\n");
  const auto node = [&](size_t i) {
    return str_cat("n", i, " [fontname=\"Helvetica\", border=\"0\", margin=\"0\", label=",
                   detail::dot_label(graph.boxes[i]), "];\n");
  };
  // Boxes come model by model, so frames nest as they come.
  std::vector<size_t> open;
  const auto close_to = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) text += "}\n";
  };
  for (size_t i = 0; i < graph.boxes.size(); ++i) {
    const std::vector<size_t>& frames = graph.boxes[i].frames;
    size_t common = 0;
    while (common < std::min(open.size(), frames.size()) && open[common] == frames[common])
      ++common;
    close_to(common);
    for (; open.size() < frames.size(); open.push_back(frames[open.size()])) {
      const size_t frame = frames[open.size()];
      text += str_cat("subgraph cluster_", frame,
                      " {\nstyle=dashed;\nlabel=", detail::quoted(graph.frames[frame]),
                      ";\nlabeljust=l;\n");
    }
    text += node(i);
  }
  close_to(0);
  for (const auto& [from, to] : graph.edges) {
    text += str_cat("n", from, " -> n", to, " [penwidth=2];\n");
  }
  return text + "}\n";
}

std::string model_to_svg(const Model& model, const PlotOptions& options) {
  return detail::to_svg(detail::plot_graph(model, options), options.left_to_right);
}

void plot_model(const Model& model, const std::string& path, const PlotOptions& options) {
  const bool is_dot = path.ends_with(".dot");
  STRATA_CHECK(is_dot || path.ends_with(".svg"), kInvalidArgument, "[keras] plot_model: got '",
               path, "'; expected a name that ends in .dot or .svg");
  const std::string text = is_dot ? model_to_dot(model, options) : model_to_svg(model, options);
  strata::detail::write_atomically(path, path + ".tmp", [&](WritableFile& file) {
    file.append(std::as_bytes(std::span(text)));
  });
}

}  // namespace strata::keras
