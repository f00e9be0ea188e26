#pragma once

#include <memory>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "strata/runtime/devices.h"

namespace strata::detail {

/// What sums the gradients of this process's replicas, all there are, on their GPUs. Null: there is one
/// replica, or some are on CPUs.
std::shared_ptr<collective::CardCommunicator> cards_of_process(
    const std::vector<LogicalDevice>& devices,
    const collective::CommunicationOptions& communication);

}  // namespace strata::detail
