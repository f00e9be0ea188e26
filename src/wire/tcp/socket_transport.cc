#include "wire/tcp/socket_transport.h"

#include <utility>

#include "wire/tcp/tcp_transport.h"
#include "wire/tls/tls.h"

namespace strata::wire {

std::unique_ptr<Transport> make_socket_transport(const SocketOptions& options) {
  std::shared_ptr<TlsContext> tls;
  if (options.tls) tls = make_tls_context(*options.tls);
  auto reactor = std::make_unique<EpollReactor>();
  EpollReactor& epoll = *reactor;
  return make_tcp_transport({.job_secret = options.job_secret,
                             .eager_limit = options.eager_limit,
                             .eager_budget = options.eager_budget},
                            options.silence_limit, std::move(reactor), epoll,
                            [tls](std::unique_ptr<Stream> tcp, bool connects) {
                              return tls == nullptr ? std::move(tcp)
                                                    : tls->secure(std::move(tcp), connects);
                            });
}

}  // namespace strata::wire
