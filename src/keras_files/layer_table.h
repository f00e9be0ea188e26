#pragma once

#include <span>
#include <string_view>

/// What Keras's layers keep, as data: no layer's mathematics. A row a variable, a row a part.
namespace strata::keras_files {

struct VariableRow {
  std::string_view name;
  /// Sizes divided by commas, products of keys of the config and numbers: "in,4*units". "in" is the
  /// input's last size, "axis" that of the config's axis; "kernel_size..." a whole list, "1..." as
  /// many ones; "?" is unknown. "..." alone: any shape.
  std::string_view shape;
  /// Kept if all of these hold, divided by commas: "use_bias:1" is a key and its default, "!key:1"
  /// its opposite, "key=word" a comparison. A list or a text counts as true.
  std::string_view when = "";
  bool trainable = true;
  bool is_of_part = false;  ///< A part has it among its own, too.
};

struct PartRow {
  std::string_view group;
  std::string_view
      class_name;           ///< Empty: `source` is a key of the config with the part's own entry.
  std::string_view source;  ///< Else the part's own name; its config is that of the whole.
  std::string_view when = "";
};

struct LayerRow {
  std::string_view class_name;
  std::span<const VariableRow> variables = {};  ///< In the order of the datasets.
  std::span<const PartRow> parts = {};          ///< In the order in which the layer makes them.
};

/// Null if the class is not known.
const LayerRow* find_layer(std::string_view class_name);

}  // namespace strata::keras_files
