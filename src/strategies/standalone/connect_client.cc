#include "strategies/standalone/connect_client.h"

#include "strata/core/error.h"

namespace strata::standalone {

std::shared_ptr<StandaloneClient> connect_client(const ClientOptions& options) {
  options.client.check(str_cat("[", options.strategy, "]"));
  if (options.client != ClientMode::kStandalone) {
    STRATA_CHECK(options.standalone.servers.empty(), kInvalidArgument, "[", options.strategy,
                 "] got servers and client='", options.client.word(),
                 "'; expected client='standalone'");
    return nullptr;
  }
  STRATA_CHECK(options.bits == Bits::kNative, kUnimplemented, "[", options.strategy, "] got bits='",
               options.bits.word(), "' and client='standalone', whose servers have native ones");
  return std::make_shared<StandaloneClient>(StandaloneClient::Settings{
      .options = options.standalone,
      .devices = options.devices.empty() ? std::vector<std::string>{"cpu:0"} : options.devices,
      .seed = options.seed,
      .timeout = options.timeout});
}

}  // namespace strata::standalone
