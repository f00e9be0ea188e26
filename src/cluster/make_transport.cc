#include "cluster/make_transport.h"

#include <chrono>

#include "cluster/job_secret_environment.h"
#include "strata/core/error.h"
#include "wire/tcp/socket_transport.h"
#include "wire/ucx/ucx_transport.h"

namespace strata::cluster {
namespace {

constexpr std::string_view kSocket = "socket";

}  // namespace

void check_wire(std::string_view wire, std::string_view where) {
  Wire(std::string(wire)).check(str_cat("[cluster] ", where));
}

std::shared_ptr<wire::Transport> make_transport(const ServerOptions& options,
                                                const Environment& environment) {
  const std::string_view name = options.wire ? std::string_view(options.wire->word()) : kSocket;
  check_wire(name, "Server");
  if (options.transport) {
    STRATA_CHECK(!options.wire, kInvalidArgument, "[cluster] Server: got the wire \"", name,
                 "\" and a transport; give it one of them");
    STRATA_CHECK(!options.job_secret, kInvalidArgument,
                 "[cluster] Server: got a job secret and a transport; give the secret to the "
                 "transport (SocketOptions::job_secret)");
    return options.transport;
  }
  const std::optional<wire::JobSecret> secret =
      options.job_secret ? options.job_secret : job_secret_from_environment(environment);
  // A link between two tasks may be cut while both are heard elsewhere.
  const auto silence = std::chrono::ceil<std::chrono::milliseconds>(options.liveness);
  if (name == kSocket) {
    return wire::make_socket_transport(
        {.tls = options.tls, .job_secret = secret, .silence_limit = silence});
  }
  STRATA_CHECK(!options.tls, kInvalidArgument, "[cluster] Server: got TLS over the wire \"", name,
               "\", which does not encrypt; take the wire \"", kSocket,
               "\", or, on a network that you trust, leave out the certificates "
               "(ServerOptions::tls, STRATA_TLS_DIR)");
  return wire::make_ucx_transport({.job_secret = secret, .silence_limit = silence});
}

}  // namespace strata::cluster
