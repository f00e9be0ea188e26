#include "strata/strategies/mirrored_strategy.h"

#include <utility>

#include "runtime/replica_group.h"
#include "strata/core/log.h"
#include "strategies/cards_of_process.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"
#include "strategies/standalone/connect_client.h"

namespace strata {

struct MirroredStrategy::Placed {
  ReplicaGroupOptions group;
  std::shared_ptr<standalone::StandaloneClient> client;

  static Placed make(const MirroredOptions& options);
};

MirroredStrategy::Placed MirroredStrategy::Placed::make(const MirroredOptions& options) {
  Placed placed;
  ReplicaGroupOptions& group = placed.group;
  group.name = "mirrored_strategy";
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.timeout;
  group.replicas = options.replicas;
  group.reduction = reduction_options(group.name, options.communication_options);
  STRATA_CHECK(options.client != ClientMode::kStandalone || options.cross_device_ops == nullptr,
               kUnimplemented, "[", group.name,
               "] got cross_device_ops and client='standalone', whose servers sum in tree order; "
               "leave them out");
  STRATA_CHECK(!options.shard_optimizer_state || options.cross_device_ops == nullptr,
               kUnimplemented, "[", group.name,
               "] got shard_optimizer_state and cross_device_ops, which give all gradients to all "
               "replicas; leave one out");
  STRATA_CHECK(!group.reduction.wire_dtype || options.cross_device_ops == nullptr, kUnimplemented,
               "[", group.name, "] got gradient_compression='",
               options.communication_options.gradient_compression,
               "' and cross_device_ops, which sum gradients as they are; leave one out");
  STRATA_CHECK(options.client != ClientMode::kStandalone || !options.shard_optimizer_state,
               kUnimplemented, "[", group.name,
               "] got shard_optimizer_state and client='standalone', whose servers keep all slots; "
               "leave it out");
  placed.client =
      standalone::connect_client(group, options.client, options.standalone, options.devices);
  if (placed.client) return placed;
  group.devices = detail::find_devices(group.name, options.devices);
  if (options.cross_device_ops == nullptr) {
    group.cards = detail::cards_of_process(group.devices, options.communication_options);
    group.reduction.shard_optimizer_state = options.shard_optimizer_state;
  }
  group.cross_device_ops =
      options.cross_device_ops ? options.cross_device_ops : choose_cross_device_ops(group.devices);
  return placed;
}

MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : MirroredStrategy(Placed::make(options)) {}

MirroredStrategy::MirroredStrategy(Placed placed)
    : Strategy(std::move(placed.group)), ClientSession(std::move(placed.client), group()) {
  STRATA_LOG(kInfo) << Strategy::describe();
}

void MirroredStrategy::do_refresh() { fetch(); }

}  // namespace strata
