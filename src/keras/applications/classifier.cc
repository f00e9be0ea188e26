#include "keras/applications/classifier.h"

#include "strata/keras/layers/core.h"
#include "strata/keras/layers/pooling.h"

namespace strata::applications::detail {

keras::Shape input_shape(const char* network, const Options& options, int64_t usual,
                         int64_t least) {
  if (options.input_shape.empty()) {
    if (options.include_top) return {usual, usual, 3};
    return {keras::kNone, keras::kNone, 3};
  }
  const keras::Shape& shape = options.input_shape;
  STRATA_CHECK(shape.size() == 3, kInvalidArgument, "[applications] ", network,
               ": got input_shape ", keras::to_string(shape),
               "; expected height, width and channels");
  for (size_t i = 0; i < 2; ++i) {
    STRATA_CHECK(shape[i] == keras::kNone || shape[i] >= least, kInvalidArgument, "[applications] ",
                 network, ": got input_shape ", keras::to_string(shape), "; expected at least ",
                 least, " x ", least);
    STRATA_CHECK(shape[i] != keras::kNone || !options.include_top, kInvalidArgument,
                 "[applications] ", network, ": got input_shape ", keras::to_string(shape),
                 "; with include_top all sizes must be known");
  }
  return shape;
}

keras::SymbolicTensor predictions(const keras::SymbolicTensor& x, const Options& options) {
  return layers::Dense(options.classes,
                       {.activation = options.classifier_activation, .name = "predictions"})(x);
}

keras::SymbolicTensor end(const keras::SymbolicTensor& x, const Options& options,
                          const std::string& average_name, const std::string& max_name) {
  if (options.include_top) {
    return predictions(layers::GlobalAveragePooling2D({.name = average_name})(x), options);
  }
  if (options.pooling == "avg") return layers::GlobalAveragePooling2D({.name = average_name})(x);
  if (options.pooling == "max") return layers::GlobalMaxPooling2D({.name = max_name})(x);
  STRATA_CHECK(options.pooling.empty(), kInvalidArgument, "[applications] got pooling '",
               options.pooling, "'; expected avg, max or none");
  return x;
}

}  // namespace strata::applications::detail
