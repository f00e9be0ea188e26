#include "suites/step_cases.h"

namespace strata::bench {
namespace {

StepCase loop(const char* name, int64_t features, int64_t classes, int batch = kStepBatch) {
  return {.name = name,
          .model = name,
          .rows = features == 0 ? StepCase::Rows::kNone : StepCase::Rows::kPixels,
          .features = features,
          .classes = classes,
          .batch = batch};
}

StepCase dense(const char* name, bool bf16) {
  return {.name = name,
          .model = "dense",
          .rows = StepCase::Rows::kPixels,
          .features = 784,
          .classes = 10,
          .zeros = false,
          .bf16 = bf16,
          .trains_model = true};
}

StepCase transformer(const char* name, int64_t tokens, bool bf16) {
  return {.name = name,
          .model = "transformer",
          .rows = StepCase::Rows::kWords,
          .features = tokens + 1,
          .classes = kStepWords,
          .batch = 16,
          .bf16 = bf16,
          .trains_model = true};
}

}  // namespace

const std::vector<StepCase>& step_cases() {
  static const std::vector<StepCase> cases = {loop("run", 0, 0),
                                              loop("mlp-loop", 784, 10),
                                              loop("cnn-loop", 784, 10),
                                              loop("wide-loop", 1024, 1000),
                                              loop("small-loop", 784, 10, 8),
                                              loop("tiny-loop", 128, 10, 8),
                                              loop("mlp-fit", 784, 10),
                                              loop("cnn-fit", 784, 10),
                                              dense("dense", false),
                                              dense("dense-bf16", true),
                                              transformer("transformer", 64, false),
                                              transformer("transformer-512", 512, false),
                                              transformer("transformer-bf16", 64, true),
                                              {.name = "lstm",
                                               .model = "lstm",
                                               .rows = StepCase::Rows::kWords,
                                               .features = 80,
                                               .classes = 2,
                                               .batch = 32,
                                               .trains_model = true},
                                              {.name = "resnet20",
                                               .model = "resnet20",
                                               .rows = StepCase::Rows::kPhotos,
                                               .features = int64_t{32} * 32 * 3,
                                               .classes = 10,
                                               .trains_model = true}};
  return cases;
}

}  // namespace strata::bench
