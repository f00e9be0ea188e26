#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strata/keras/printing.h"

namespace strata::keras::detail {

/// A model as boxes and edges.
struct PlotGraph {
  struct Box {
    std::string name;        ///< Of the layer; empty: not shown.
    std::string class_name;  ///< "Dense"
    std::string activation;  ///< Empty: not shown.
    /// "Input shape", "(None, 4)".
    std::vector<std::pair<std::string, std::string>> facts;
    int trainable = -1;          ///< 0, 1; -1: not shown.
    std::vector<size_t> frames;  ///< Nested models around it, outermost first.
  };
  std::vector<Box> boxes;
  std::vector<std::pair<size_t, size_t>> edges;
  std::vector<std::string> frames;  ///< Names of nested models.
};

/// @throws Error kFailedPrecondition: not built.
PlotGraph plot_graph(const Model& model, const PlotOptions& options);

std::string to_svg(const PlotGraph& graph, bool left_to_right);

/// With &lt; and so on.
std::string escape_markup(const std::string& text);

}  // namespace strata::keras::detail
