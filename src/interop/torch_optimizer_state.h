#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "strata/checkpoint/state.h"
#include "strata/runtime/variable.h"

namespace strata::interop::detail {

/// A variable, and the instance that updates it: its state is under the tensor of replica `owner`.
struct OwnedVariable {
  Variable variable;
  int owner;
  torch::optim::Optimizer* optimizer;
};

/// The state of a torch::optim optimizer whose variables are divided among instances, by the
/// variables' names, so that it may be restored under another division.
/// @param front  Has the options in effect.
/// @throws Error kUnimplemented: not one of torch::optim's classes.
std::shared_ptr<Trackable> track_torch_optimizer(std::vector<OwnedVariable> variables,
                                                 torch::optim::Optimizer& front);

}  // namespace strata::interop::detail
