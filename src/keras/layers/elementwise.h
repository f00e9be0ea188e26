#pragma once

#include "strata/keras/layer_impl.h"

namespace strata::layers {

/// One input, one output of its shape; masks go through.
class ElementwiseImpl : public keras::UnaryLayerImpl {
 public:
  using UnaryLayerImpl::UnaryLayerImpl;

 protected:
  keras::Shape compute_output_shape(const keras::Shape& input) const override { return input; }
  bool supports_masking() const override { return true; }
};

}  // namespace strata::layers
