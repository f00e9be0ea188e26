#pragma once

#include <cstdint>
#include <string>

#include "strata/keras/model.h"

namespace strata::bench {

/// The models of suite step's cases dense, transformer, lstm and resnet20 in the dtype policy that
/// is set; their logits are float32. benchmarks/README.md describes them.
/// @param tokens  Words of a row, for transformer and lstm.
/// @throws Error kInvalidArgument: no such model.
keras::Model make_keras_model(const std::string& model, int64_t tokens);

}  // namespace strata::bench
