#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "wire/stream.h"
#include "wire/stream_transport.h"
#include "wire/tcp/epoll_reactor.h"
#include "wire/transport.h"

namespace strata::wire {

/// Makes of a TCP connection what a session speaks over; `connects`: this end does.
using MakeStream =
    std::function<std::unique_ptr<Stream>(std::unique_ptr<Stream> tcp, bool connects)>;

/// A transport whose connections begin as TCP connections. @param silence  SocketOptions has it.
/// @param epoll  The reactor, or of it.
std::unique_ptr<Transport> make_tcp_transport(const StreamTransportOptions& options,
                                              std::chrono::milliseconds silence,
                                              std::unique_ptr<Reactor> reactor, EpollReactor& epoll,
                                              MakeStream make_stream);

}  // namespace strata::wire
