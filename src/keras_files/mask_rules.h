#pragma once

#include <functional>
#include <string_view>

#include "strata/core/json.h"

namespace strata::keras_files {

/// What a layer of Keras does with masks when it is called symbolically. Masks are made by
/// operations of which nothing is written in a file; where a call takes one as an argument they
/// are part of the graph all the same.
struct MaskRule {
  /// The mask of what the layer gives.
  enum class Makes {
    kNothing,       ///< None: the layer does not know masks, and its inputs' end here.
    kSame,          ///< That of the first argument.
    kNotEqual,      ///< not_equal(input): Embedding.
    kAny,           ///< any(not_equal(input)): Masking.
    kConverted,     ///< convert_to_tensor(mask of the first tensor): Attention.
    kEither,        ///< logical_or of all, or none if one has none: Add and its like.
    kConcatenated,  ///< any(concatenate(...)): Concatenate.
  };

  Makes makes = Makes::kNothing;
  bool first_output_only = false;  ///< States have none.
  /// True if `call` in Keras has an argument `mask`, in which it gets that of its only argument.
  bool takes_mask = false;
  /// True if it gets it whatever the call's other arguments and the dtype are.
  bool takes_it_always = false;
};

/// @param config  Gives the layer's config; asked only where the rule depends on it.
/// A class that is not known: kNothing.
MaskRule mask_rule(std::string_view class_name, const std::function<Json()>& config);

/// True for classes that make masks out of what has none.
bool begins_masks(std::string_view class_name);

}  // namespace strata::keras_files
