#include "tools/study/tensorflow_peer.h"

#include <algorithm>
#include <cstdio>

#include "strata/core/str_cat.h"

namespace strata::tools {
namespace {

/// Those of tf_keras.applications; study_in_tensorflow.py has the same names.
constexpr std::string_view kNetworks[] = {"resnet50", "inception3", "vgg16", "mobilenet_v2"};

}  // namespace

std::string why_not_in_tensorflow(const Configuration& c) {
  if (std::ranges::find(kNetworks, c.network) == std::end(kNetworks)) {
    return str_cat("tf_keras.applications has no ", c.network);
  }
  if (!c.is_synthetic()) return "synthetic images alone are compared";
  switch (c.strategy) {
    case StudyStrategy::kMirrored:
    case StudyStrategy::kMultiWorker:
    case StudyStrategy::kOneDevice:
      return c.optimizer == "sgd" ? "" : "sgd alone is compared";
    case StudyStrategy::kParameterServer:
      return c.synchronous ? "its parameter servers do not add the gradients of all workers"
                           : "its workers without synchronization are not compared";
    case StudyStrategy::kCentral:
    case StudyStrategy::kIndependent:
      break;
  }
  return str_cat("it has no ", word_of(c.strategy));
}

std::vector<std::string> tensorflow_words(const Configuration& c) {
  char rate[32];
  std::snprintf(rate, sizeof rate, "%.17g", c.learning_rate);
  return {"--network",       c.network,
          "--strategy",      std::string(word_of(c.strategy)),
          "--replicas",      str_cat(c.replicas),
          "--batch",         str_cat(c.batch),
          "--image-size",    str_cat(c.image_size),
          "--classes",       str_cat(c.classes),
          "--dtype",         c.dtype,
          "--learning-rate", rate,
          "--device",        c.device,
          "--threads",       str_cat(c.threads),
          "--warmup",        str_cat(c.warmup),
          "--steps",         str_cat(c.steps)};
}

}  // namespace strata::tools
