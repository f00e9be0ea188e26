// Optimizers and schedules, from Keras's JSON.
#include "strata/keras/saving.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)strata::fuzz::takes([&] {
    const auto json = strata::Json::parse(strata::fuzz::text_of(data, size));
    const auto optimizer = strata::keras::optimizer_from_config(json);
    (void)strata::keras::to_config(*optimizer).dump();
  });
  return 0;
}
