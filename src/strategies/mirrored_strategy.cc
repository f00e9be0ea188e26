#include "strata/strategies/mirrored_strategy.h"

#include <utility>

#include "runtime/replica_group.h"
#include "strata/core/log.h"
#include "strategies/default_seed.h"
#include "strategies/find_devices.h"
#include "strategies/standalone/client.h"

namespace strata {
namespace {

ReplicaGroupOptions common_options(const MirroredOptions& options) {
  ReplicaGroupOptions group;
  group.name = "mirrored_strategy";
  group.seed = options.seed.value_or(detail::default_seed());
  group.timeout = options.timeout;
  group.replicas = options.replicas;
  return group;
}

ReplicaGroupOptions local_options(const MirroredOptions& options) {
  ReplicaGroupOptions group = common_options(options);
  group.devices = detail::find_devices(group.name, options.devices);
  group.cross_device_ops =
      options.cross_device_ops ? options.cross_device_ops : choose_cross_device_ops(group.devices);
  return group;
}

std::vector<std::string> devices_of_server(const MirroredOptions& options) {
  return options.devices.empty() ? std::vector<std::string>{"cpu:0"} : options.devices;
}

/// As many replicas as the servers have: steps are recorded with them, and computed there.
ReplicaGroupOptions recording_options(const MirroredOptions& options) {
  ReplicaGroupOptions group = common_options(options);
  group.functions_only = true;
  group.replicas.pin_threads = false;
  const size_t replicas = devices_of_server(options).size() * options.standalone.servers.size();
  for (size_t i = 0; i < replicas; ++i) {
    group.devices.push_back({.name = str_cat("/job:localhost/replica:0/task:0/device:CPU:", i),
                             .type = "CPU",
                             .index = static_cast<int>(i),
                             .physical = c10::Device(c10::kCPU)});
  }
  return group;
}

std::shared_ptr<standalone::StandaloneClient> connect_client(const MirroredOptions& options) {
  options.client.check("[mirrored_strategy]");
  if (options.client != ClientMode::kStandalone) {
    STRATA_CHECK(options.standalone.servers.empty(), kInvalidArgument,
                 "[mirrored_strategy] got servers and client='", options.client.word(),
                 "'; expected client='standalone'");
    return nullptr;
  }
  STRATA_CHECK(
      options.cross_device_ops == nullptr, kUnimplemented,
      "[mirrored_strategy] got cross_device_ops and client='standalone', whose servers sum "
      "in tree order; leave them out");
  STRATA_CHECK(options.replicas.bits == Bits::kNative, kUnimplemented,
               "[mirrored_strategy] got bits='", options.replicas.bits.word(),
               "' and client='standalone', whose servers have native ones");
  return std::make_shared<standalone::StandaloneClient>(
      standalone::StandaloneClient::Settings{.options = options.standalone,
                                             .devices = devices_of_server(options),
                                             .seed = options.seed.value_or(detail::default_seed()),
                                             .timeout = options.timeout});
}

}  // namespace

MirroredStrategy::MirroredStrategy(const MirroredOptions& options)
    : MirroredStrategy(options, connect_client(options)) {}

MirroredStrategy::MirroredStrategy(const MirroredOptions& options,
                                   std::shared_ptr<standalone::StandaloneClient> client)
    : Strategy(client ? recording_options(options) : local_options(options)),
      client_(std::move(client)) {
  if (client_) {
    client_->set_group(group());
    group().set_step(client_->runs());
    group().observe(client_);
  }
  STRATA_LOG(kInfo) << Strategy::describe();
}

std::string MirroredStrategy::session() const { return client_ ? client_->session() : ""; }
uint64_t MirroredStrategy::runs() const { return client_ ? client_->runs() : group().step(); }
void MirroredStrategy::fetch() {
  if (client_) client_->fetch();
}
void MirroredStrategy::push() {
  if (client_) client_->push();
}
void MirroredStrategy::close() {
  if (client_) client_->close();
}
void MirroredStrategy::do_refresh() { fetch(); }

}  // namespace strata
