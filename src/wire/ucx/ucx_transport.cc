#include "wire/ucx/ucx_transport.h"

#include <utility>

#include "wire/tcp/tcp_transport.h"
#include "wire/ucx/ucx_stream.h"

namespace strata::wire {

bool has_ucx_transport() { return true; }

std::unique_ptr<Transport> make_ucx_transport(const UcxOptions& options) {
  auto reactor = std::make_unique<UcxWorker>();
  UcxWorker& worker = *reactor;
  return make_tcp_transport({.job_secret = options.job_secret,
                             .eager_limit = options.eager_limit,
                             .eager_budget = options.eager_budget},
                            options.silence_limit, std::move(reactor), worker.epoll(),
                            [&worker](std::unique_ptr<Stream> tcp, bool) {
                              return std::make_unique<UcxStream>(std::move(tcp), worker);
                            });
}

}  // namespace strata::wire
