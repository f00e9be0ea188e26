#include "strata/keras/callbacks/terminate_on_nan.h"

#include <cmath>
#include <cstdio>

#include "keras/training/training_run.h"

namespace strata::callbacks {

void TerminateOnNaN::on_train_batch_end(int64_t batch, keras::Logs& logs) {
  const auto loss = logs.find("loss");
  if (!loss || std::isfinite(*loss)) return;
  STRATA_CHECK(!raise_error_, kOutOfRange, "[callbacks] TerminateOnNaN: the loss is ", *loss,
               " at batch ", batch, "; lower the learning rate, or clip the gradients");
  std::printf("Batch %lld: Invalid loss, terminating training\n", static_cast<long long>(batch));
  run().stop_training();
}

}  // namespace strata::callbacks
