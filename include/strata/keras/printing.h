#pragma once

#include <iosfwd>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/model.h"

namespace strata::keras {

struct SummaryOptions {
  /// The table's width in columns. 0: Keras's, 88 (108 with connections, 12 more with
  /// show_trainable), at most the console's width less 4.
  int64_t line_length = 0;
  /// The width at which lines are cut. 0: COLUMNS, or the terminal's, or 80.
  int64_t console_width = 0;
  bool expand_nested = false;   ///< Shows the layers of nested models.
  bool show_trainable = false;  ///< Adds a column with Y or N.
};

/// Prints the model's layers, output shapes and numbers of parameters, in the words and the table
/// of Keras 3.15, without colours.
/// @throws Error kInvalidArgument: too few columns. Source: keras.Model.summary.
STRATA_API void print_summary(const Model& model, std::ostream& out,
                              const SummaryOptions& options = {});

/// Returns the same as text.
STRATA_API std::string summary(const Model& model, const SummaryOptions& options = {});

struct PlotOptions {
  bool show_shapes = false;
  bool show_dtype = false;
  bool show_layer_names = true;
  bool show_layer_activations = false;
  bool show_trainable = false;
  bool expand_nested = false;  ///< Draws nested models as boxes of their own inside a frame.
  bool left_to_right = false;  ///< Keras's rankdir="LR".
};

/// Returns the model's graph in graphviz's language: the boxes, texts and edges of Keras's.
/// @throws Error kFailedPrecondition: not built. Source: keras.utils.model_to_dot.
STRATA_API std::string model_to_dot(const Model& model, const PlotOptions& options = {});

/// Returns the same as a picture, laid out by strata: layers in ranks from inputs to outputs.
STRATA_API std::string model_to_svg(const Model& model, const PlotOptions& options = {});

/// Writes one or the other, by the ending: `.dot` or `.svg`. The file is written completely or not
/// at all.
/// @throws Error kInvalidArgument: another ending. Errors of core/file_system.h.
STRATA_API void plot_model(const Model& model, const std::string& path,
                           const PlotOptions& options = {});

}  // namespace strata::keras
