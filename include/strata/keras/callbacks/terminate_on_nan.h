#pragma once

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

/// Ends training when the loss is NaN or infinite. Cost: reads the loss after every batch.
/// Source: keras.callbacks.TerminateOnNaN.
class STRATA_API TerminateOnNaN : public Callback {
 public:
  /// @param raise_error  Throws Error kOutOfRange instead.
  explicit TerminateOnNaN(bool raise_error = false) : raise_error_(raise_error) {}

  void on_train_batch_end(int64_t batch, keras::Logs& logs) override;

 private:
  bool raise_error_;
};

}  // namespace strata::callbacks
