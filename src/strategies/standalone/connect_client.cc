#include "strategies/standalone/connect_client.h"

#include <utility>

#include "strata/core/error.h"
#include "strategies/recording_group.h"

namespace strata::standalone {

std::shared_ptr<StandaloneClient> connect_client(ReplicaGroupOptions& group,
                                                 const ClientMode& client,
                                                 const StandaloneOptions& options,
                                                 const std::vector<std::string>& devices,
                                                 std::optional<ParametersSpec> parameters) {
  client.check(str_cat("[", group.name, "]"));
  if (client != ClientMode::kStandalone) {
    STRATA_CHECK(options.servers.empty() && options.parameter_servers.empty(), kInvalidArgument,
                 "[", group.name, "] got servers and client='", client.word(),
                 "'; expected client='standalone'");
    return nullptr;
  }
  STRATA_CHECK(
      parameters || options.parameter_servers.empty(), kInvalidArgument, "[", group.name,
      "] got parameter_servers, which this strategy has no use for; leave them out, or use "
      "ParameterServerStrategy");
  STRATA_CHECK(!parameters || !options.parameter_servers.empty(), kInvalidArgument, "[", group.name,
               "] got no parameter_servers and client='standalone'; expected \"HOST:PORT\" of "
               "each `strata server` that is to hold variables");
  STRATA_CHECK(!group.reduction.wire_dtype, kUnimplemented, "[", group.name,
               "] got gradient_compression and client='standalone', whose servers sum gradients in "
               "their own dtypes; leave it out");
  const bool apart = parameters.has_value();
  const Bits& bits = group.replicas.bits;
  STRATA_CHECK(bits == Bits::kNative, kUnimplemented, "[", group.name, "] got bits='", bits.word(),
               "' and client='standalone', whose servers have native ones");
  auto connected = std::make_shared<StandaloneClient>(StandaloneClient::Settings{
      .options = options,
      .devices = devices.empty() ? std::vector<std::string>{"cpu:0"} : devices,
      .seed = group.seed,
      .timeout = group.timeout,
      .parameters = std::move(parameters)});
  detail::record_for(group, "CPU", connected->num_replicas());
  if (apart) group.separate_processes = connected->num_servers();
  return connected;
}

}  // namespace strata::standalone
