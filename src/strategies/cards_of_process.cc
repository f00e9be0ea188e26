#include "strategies/cards_of_process.h"

#include <set>
#include <utility>

#include "collective/nccl/nccl_library.h"
#include "collective/nccl/nccl_transport.h"
#include "strata/core/error.h"

namespace strata::detail {
namespace {

/// NCCL where it is asked for, or may add as it likes; in the fixed order copies do the same.
std::shared_ptr<collective::CardTransport> transport_between(
    const collective::CardCommunicator::Options& options) {
  const bool is_required = options.communication.implementation == "NCCL";
  const bool is_wanted = is_required || options.communication.order == collective::Order::kAny;
  std::set<c10::DeviceIndex> cards;
  for (const c10::Device& device : options.devices) cards.insert(device.index());
  std::string why_not;
  if (cards.size() < options.devices.size()) {
    why_not = "several replicas share a card, between which NCCL cannot add";
  } else if (is_wanted) {
    collective::nccl::find(&why_not);
  }
  STRATA_CHECK(!is_required || why_not.empty(), kFailedPrecondition,
               "[mirrored_strategy] got implementation NCCL, and ", why_not);
  if (!is_wanted || !why_not.empty()) return std::make_shared<collective::CopyTransport>();
  return std::make_shared<collective::nccl::NcclTransport>(collective::nccl::NcclTransport::Options{
      .num_ranks = static_cast<int>(options.devices.size()),
      .ranks = options.replicas,
      .devices = options.devices,
      .id = collective::nccl::NcclTransport::new_id(),
      .timeout = options.communication.timeout});
}

}  // namespace

std::shared_ptr<collective::CardCommunicator> cards_of_process(
    const std::vector<LogicalDevice>& devices,
    const collective::CommunicationOptions& communication) {
  collective::CardCommunicator::Options options{.communication = communication};
  for (const LogicalDevice& device : devices) {
    if (!device.physical.is_cuda()) return nullptr;
    options.devices.push_back(device.physical);
    options.replicas.push_back(static_cast<int>(options.replicas.size()));
    options.hosts.push_back(0);
  }
  if (options.devices.size() < 2) return nullptr;
  options.transport = transport_between(options);
  return std::make_shared<collective::CardCommunicator>(std::move(options));
}

}  // namespace strata::detail
