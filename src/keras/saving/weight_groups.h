#pragma once

#include <map>
#include <string>
#include <vector>

#include "keras_files/weights_tree.h"
#include "strata/keras/layer_assets.h"
#include "strata/keras/model.h"

/// Which variables of a model stand where in a weights file of Keras's.
namespace strata::keras::detail {

struct WeightsPlace {
  std::string path;   ///< The group's: "layers/bidirectional/forward_layer/cell".
  std::string layer;  ///< "lstm_cell"
  std::string names;  ///< Names of the layers on the way: "bidirectional/forward_lstm/lstm_cell".
  std::vector<Weight> weights;
  KeepsAssets* keeper;  ///< The layer, if it is one; the model holds it.
};

/// Every layer in and below `model` once, at the place where Keras comes to it first.
/// @param config  The entry that the model was made from; null: its own order. Groups are numbered
///                in the order of Keras's `model.layers`, which a file's nodes decide.
std::vector<WeightsPlace> weights_places(const Model& model, const Json& config = {});

/// The variables' values, on the CPU.
keras_files::WeightsGroup collect_weights(const Model& model);

/// The texts that layers keep in `.keras` files, by place and name.
std::map<std::string, std::string> collect_assets(const Model& model);

/// Gives layers what files keep of them beside options and weights.
/// @param assets  As collect_assets; empty for files of weights alone.
/// @throws Error kInvalidArgument: names the layer.
void load_assets(const Model& model, const Json& config, const keras_files::WeightsGroup& tree,
                 const std::map<std::string, std::string>& assets);

/// Puts the values in, all or none.
/// @param source  Names the file in errors.
/// @throws Error kInvalidArgument: names layer, variable and both shapes.
void assign_weights(const Model& model, const Json& config, const keras_files::WeightsGroup& tree,
                    const std::string& source);

/// Values for variables, checked and then assigned together.
class Assignments {
 public:
  explicit Assignments(std::string source) : source_(std::move(source)) {}
  /// @throws Error kInvalidArgument: another shape.
  void add(const std::string& layer, const Weight& weight, const at::Tensor& value);
  void apply();

 private:
  std::string source_;
  std::vector<std::pair<Variable, at::Tensor>> values_;
};

}  // namespace strata::keras::detail
