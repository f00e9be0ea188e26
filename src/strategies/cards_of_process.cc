#include "strategies/cards_of_process.h"

namespace strata::detail {

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
  options.transport = std::make_shared<collective::CopyTransport>();
  return std::make_shared<collective::CardCommunicator>(std::move(options));
}

}  // namespace strata::detail
