#include "strategies/standalone/connect_client.h"

#include "strata/core/error.h"
#include "strategies/recording_group.h"

namespace strata::standalone {

std::shared_ptr<StandaloneClient> connect_client(ReplicaGroupOptions& group,
                                                 const ClientMode& client,
                                                 const StandaloneOptions& options,
                                                 const std::vector<std::string>& devices) {
  client.check(str_cat("[", group.name, "]"));
  if (client != ClientMode::kStandalone) {
    STRATA_CHECK(options.servers.empty(), kInvalidArgument, "[", group.name,
                 "] got servers and client='", client.word(), "'; expected client='standalone'");
    return nullptr;
  }
  const Bits& bits = group.replicas.bits;
  STRATA_CHECK(bits == Bits::kNative, kUnimplemented, "[", group.name, "] got bits='", bits.word(),
               "' and client='standalone', whose servers have native ones");
  auto connected = std::make_shared<StandaloneClient>(StandaloneClient::Settings{
      .options = options,
      .devices = devices.empty() ? std::vector<std::string>{"cpu:0"} : devices,
      .seed = group.seed,
      .timeout = group.timeout});
  detail::record_for(group, "CPU", connected->num_replicas());
  return connected;
}

}  // namespace strata::standalone
