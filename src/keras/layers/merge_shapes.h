#pragma once

#include <string>
#include <vector>

#include "strata/keras/layer.h"

/// What layers of several inputs ask of their shapes.
namespace strata::layers {

/// "[(None, 3), (None, 4)]"
std::string to_string(const std::vector<keras::Shape>& shapes);
std::vector<keras::Shape> shapes_of(const keras::Tensors& inputs);
/// The only size of the batch that is known; kNone if none is.
/// @throws Error kInvalidArgument: there are several.
int64_t common_batch(const std::vector<keras::Shape>& inputs, const std::string& layer);

}  // namespace strata::layers
