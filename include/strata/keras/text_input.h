#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/layer.h"

namespace strata::keras {

struct TextInputOptions {
  std::string name = {};
  int64_t batch_size = kNone;
};

/// Makes a model's input of texts, as strata/data/texts.h has them: uint8, with their bytes behind
/// the dimensions of `shape`. In files it has Keras's dtype "string".
/// @param shape  Without the batch and the bytes: {} for a text a row, {1}.
STRATA_API SymbolicTensor TextInput(const Shape& shape, const TextInputOptions& options = {});

}  // namespace strata::keras
