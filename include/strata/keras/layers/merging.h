#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Layers that merge several tensors into one: `layers::Add()({a, b})`, or `layers::add({a, b})`.
namespace strata::layers {

struct MergeOptions {
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

#define STRATA_MERGE_LAYER(Name)                     \
  class STRATA_API Name : public keras::Layer {      \
   public:                                           \
    explicit Name(const MergeOptions& options = {}); \
  }

/// Merges element by element; sizes of 1 broadcast as in Keras.
STRATA_MERGE_LAYER(Add);
/// Takes exactly two tensors.
STRATA_MERGE_LAYER(Subtract);
/// Masked elements count as 1.
STRATA_MERGE_LAYER(Multiply);
STRATA_MERGE_LAYER(Average);
/// Masked elements are ignored.
STRATA_MERGE_LAYER(Maximum);
STRATA_MERGE_LAYER(Minimum);
#undef STRATA_MERGE_LAYER

struct ConcatenateOptions {
  int64_t axis = -1;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

class STRATA_API Concatenate : public keras::Layer {
 public:
  explicit Concatenate(const ConcatenateOptions& options = {});
};

struct DotOptions {
  bool normalize = false;  ///< Normalizes to a length of 1 first, which gives the cosine.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Multiplies two tensors and sums over an axis of each, example by example.
class STRATA_API Dot : public keras::Layer {
 public:
  /// @param axes  One for both, or one for each.
  explicit Dot(const Axes& axes, const DotOptions& options = {});
};

#define STRATA_MERGE_FUNCTION(name)                                                       \
  STRATA_API keras::SymbolicTensor name(const std::vector<keras::SymbolicTensor>& inputs, \
                                        const MergeOptions& options = {});                \
  STRATA_API at::Tensor name(const keras::Tensors& inputs)

STRATA_MERGE_FUNCTION(add);
STRATA_MERGE_FUNCTION(subtract);
STRATA_MERGE_FUNCTION(multiply);
STRATA_MERGE_FUNCTION(average);
STRATA_MERGE_FUNCTION(maximum);
STRATA_MERGE_FUNCTION(minimum);
#undef STRATA_MERGE_FUNCTION

STRATA_API keras::SymbolicTensor concatenate(const std::vector<keras::SymbolicTensor>& inputs,
                                             const ConcatenateOptions& options = {});
STRATA_API at::Tensor concatenate(const keras::Tensors& inputs,
                                  const ConcatenateOptions& options = {});
STRATA_API keras::SymbolicTensor dot(const std::vector<keras::SymbolicTensor>& inputs,
                                     const Axes& axes, const DotOptions& options = {});
STRATA_API at::Tensor dot(const keras::Tensors& inputs, const Axes& axes,
                          const DotOptions& options = {});

}  // namespace strata::layers
