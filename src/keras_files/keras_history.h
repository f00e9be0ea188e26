#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/json.h"

namespace strata::keras_files {

/// A tensor of a functional model in its config: Keras's [layer, call, output].
struct KerasHistory {
  std::string layer;
  int64_t call = 0;
  int64_t output = 0;
  std::string dtype = {};  ///< empty: not given
};

bool is_keras_history(const Json& json);
/// Of one that is.
KerasHistory keras_history_of(const Json& json);

/// The elements of a list; the members of an object in the order of their names, as Keras flattens
/// dictionaries; else none.
std::vector<const Json*> children_of(const Json& json);

/// Those of `input_layers` and `output_layers`: one, or several in lists and dictionaries.
void collect_keras_histories(const Json& json, std::vector<KerasHistory>& to);

}  // namespace strata::keras_files
