// What a checkpoint manager has beside its checkpoints.
#include "checkpoint/manager_state.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata;
  (void)checkpoint::read_preserved(fuzz::file_of(fuzz::text_of(data, size)), "ckpt");
  return 0;
}
