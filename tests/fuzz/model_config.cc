// Models, from Keras's JSON.
#include "strata/keras/saving.h"

#include "core/memory_limit.h"
#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const strata::detail::ScopedMemoryLimit limit(1 << 20);  // of each weight
  (void)strata::fuzz::takes([&] {
    const auto json = strata::Json::parse(strata::fuzz::text_of(data, size));
    const strata::keras::Model model = strata::keras::model_from_config(json);
    (void)strata::keras::model_to_config(model).dump();
  });
  return 0;
}
