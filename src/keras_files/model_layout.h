#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/core/json.h"

/// The rules by which Keras 3 names and orders what it saves of a model. Pure functions of the
/// model's JSON (KerasArchive::config, or an entry of `config.layers`).
namespace strata::keras_files {

/// A class's name as groups have it: "BatchNormalization" gives "batch_normalization", "PReLU"
/// "p_re_lu", "Conv2D" "conv2d".
std::string to_snake_case(std::string_view class_name);

/// The names of the groups of one model's layers, asked for in the model's order: `dense`,
/// `dense_1`, `conv2d`, `dense_2`. Numbers count per class.
class GroupNames {
 public:
  std::string next(std::string_view class_name);

 private:
  std::unordered_map<std::string, int> used_;
};

/// False for an operation such as `x + y`: it is a node of a graph, and no layer.
bool is_layer(const Json& entry);
/// True for a model made of inputs and outputs, with a graph in its config.
bool is_functional(const Json& entry);

/// The names of a functional model's layers and operations in the order of Keras's `model.layers`
/// (operations among them), which does not depend on the order in the file. Group names are
/// numbered in it: a writer that takes another order makes Keras load the wrong weights silently.
///
/// Depth-first from the outputs in order, a node's inputs in argument order, gives each layer an
/// index (its first visit); its depth is the longest way to an output over all its calls. Sorted by
/// falling depth, then by index; inputs that reach no output stand first in depth 0. The operations
/// with which Keras makes masks count, too, where a call takes a mask: Keras adds them when it
/// loads a file that does not have them.
///
/// @param config  `config` of the model: `layers`, `input_layers`, `output_layers`.
/// @throws Error kDataLoss: a tensor of a layer or call that is not there, or a cycle; names it.
/// Cost: linear in layers and calls, but for the sort.
/// Source: keras.src.ops.function.map_graph, keras.src.layers.layer.Layer.__call__.
std::vector<std::string> canonical_order(const Json& config);

/// One variable of a layer.
struct VariableSpec {
  std::string name;         ///< "kernel"; Keras's own.
  bool trainable = true;    ///< False for moving statistics and everything of a frozen layer.
  bool is_of_part = false;  ///< The object's part has the same variable: it counts there.
  bool has_shape = false;
  std::vector<int64_t> shape = {};  ///< -1 where the config does not say.
};

/// One object of which Keras keeps a group.
struct SavedObject {
  std::string path;        ///< "layers/bidirectional/forward_layer/cell"; "" is the model.
  std::string name;        ///< Its own: "lstm_cell".
  std::string class_name;  ///< "LSTMCell"
  /// False: a class that we do not know. Then `variables` is empty, and means nothing.
  bool is_known = true;
  std::vector<VariableSpec> variables = {};  ///< In the order of `vars/0`, `vars/1`, ...
};

/// Every object of the model that has a group, the model first, in the order in which Keras saves
/// them. An object that is at several places is listed once, at the first: only there it is
/// stored.
/// @param model  `class_name`, `config`: Sequential or functional, nested as you like.
/// @throws Error kDataLoss: not such a model; names layer and key.
std::vector<SavedObject> saved_objects(const Json& model);

/// Where a variable is: `vars/<index>` of the group at `path`.
struct VariablePlace {
  std::string path;
  int64_t index = 0;

  friend bool operator==(const VariablePlace&, const VariablePlace&) = default;
};

/// Keras's `model.trainable_variables`, the order of an optimizer's slots. It is not the order of
/// the groups: a layer's parts come as they were made (query, key, value, output), not by name.
/// @throws Error  as saved_objects, and kUnimplemented: a layer of a class that we do not know.
std::vector<VariablePlace> trainable_variables(const Json& model);

}  // namespace strata::keras_files
