// Keras's rules for what a model keeps where, from a model's JSON.
#include "keras_files/model_layout.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::keras_files;
  strata::Json model;
  if (!strata::fuzz::takes(
          [&] { model = strata::Json::parse(strata::fuzz::text_of(data, size)); })) {
    return 0;
  }
  (void)strata::fuzz::takes([&] { (void)saved_objects(model); });
  (void)strata::fuzz::takes([&] { (void)trainable_variables(model); });
  (void)strata::fuzz::takes([&] { (void)canonical_order(model.at("config")); });
  return 0;
}
