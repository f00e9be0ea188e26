#include "strata/strategies/mirrored_strategy.h"

#include <utility>

#include "runtime/replica_group.h"
#include "strata/core/log.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"
#include "strategies/recording_group.h"
#include "strategies/standalone/connect_client.h"

namespace strata {
namespace {

constexpr auto kMirrored = "mirrored_strategy";

ReplicaGroupOptions group_options(const MirroredOptions& options,
                                  const standalone::StandaloneClient* client) {
  ReplicaGroupOptions group;
  group.name = kMirrored;
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.timeout;
  group.replicas = options.replicas;
  if (client != nullptr) {
    detail::record_for(group, "CPU", client->num_replicas());
    return group;
  }
  group.devices = detail::find_devices(group.name, options.devices);
  group.cross_device_ops =
      options.cross_device_ops ? options.cross_device_ops : choose_cross_device_ops(group.devices);
  return group;
}

std::shared_ptr<standalone::StandaloneClient> connect_mirrored(const MirroredOptions& options) {
  STRATA_CHECK(
      options.client != ClientMode::kStandalone || options.cross_device_ops == nullptr,
      kUnimplemented, "[", kMirrored,
      "] got cross_device_ops and client='standalone', whose servers sum in tree order; leave "
      "them out");
  return standalone::connect_client({.strategy = kMirrored,
                                     .client = options.client,
                                     .standalone = options.standalone,
                                     .devices = options.devices,
                                     .bits = options.replicas.bits,
                                     .seed = options.seed.value_or(detail::default_seed()),
                                     .timeout = options.timeout});
}

}  // namespace

MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : MirroredStrategy(options, connect_mirrored(options)) {}

MirroredStrategy::MirroredStrategy(const MirroredOptions& options,
                                   std::shared_ptr<standalone::StandaloneClient> client)
    : Strategy(group_options(options, client.get())), ClientSession(std::move(client), group()) {
  STRATA_LOG(kInfo) << Strategy::describe();
}

void MirroredStrategy::do_refresh() { fetch(); }

}  // namespace strata
