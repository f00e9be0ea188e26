#pragma once

#include <memory>
#include <string>

#include "keras/training/fit_loop.h"
#include "strata/checkpoint/tracked.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::estimator::detail {

/// The place in the input, for checkpoints. A restored one is not taken before it is asked for.
class InputPlace final : public Trackable {
 public:
  explicit InputPlace(keras::detail::BatchFeed& feed) : feed_(feed) {}

  ObjectState state() override {
    return {.values = {{.name = "",
                        .read = [this] { return CheckpointValue(feed_.position()); },
                        .write =
                            [this](const CheckpointValue& value) {
                              restored_ = strata::detail::checkpoint_value<std::string>(value);
                            }}}};
  }

  /// Goes on where the checkpoint was saved; where that was another input, at the beginning.
  void go_on() {
    if (restored_.empty()) return;
    try {
      feed_.restore(restored_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      STRATA_LOG(kWarning) << "[estimator] train: the checkpoint is of training with another "
                              "input, so this one starts at its beginning: "
                           << error.what();
      feed_.start(0);
    }
  }

 private:
  keras::detail::BatchFeed& feed_;
  std::string restored_;
};

}  // namespace strata::estimator::detail
