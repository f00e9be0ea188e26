#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/keras/model.h"

namespace strata::tools {

/// A network of the study, with the sizes that tf_cnn_benchmarks gives it.
struct StudyNetwork {
  const char* name;
  int64_t image_size;
  int64_t batch;  ///< of a replica
  int64_t classes;
  int64_t smallest;  ///< images that it takes
};

/// inception3, resnet50, vgg16, alexnet, mobilenet_v2, resnet20, trivial.
const std::vector<StudyNetwork>& study_networks();

/// @throws Error  kInvalidArgument: no such network; lists them.
const StudyNetwork& study_network(const std::string& name);

/// The network, from images `[batch, image_size, image_size, channels]` to logits in float32,
/// `[batch, classes]`. Weights are made in the present scope and of the present dtype policy.
/// Source: keras.applications for the large ones; tf_cnn_benchmarks for alexnet and trivial; He et
/// al. 2015 for resnet20.
keras::Model make_study_network(const std::string& name, int64_t image_size, int64_t classes,
                                int64_t channels = 3);

}  // namespace strata::tools
