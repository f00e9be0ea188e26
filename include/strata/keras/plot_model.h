#pragma once

#include <string>

#include "strata/core/export.h"
#include "strata/keras/model.h"

namespace strata::keras {

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
