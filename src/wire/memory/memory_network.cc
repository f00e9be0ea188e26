#include "wire/memory/memory_network.h"

#include <utility>

#include "wire/memory/memory_stream.h"
#include "wire/stream_transport.h"

namespace strata::wire {
namespace {

using Impl = MemoryNetwork::Impl;

class MemoryTransport final : public StreamTransport {
 public:
  MemoryTransport(std::shared_ptr<Impl> network, std::string host,
                  std::shared_ptr<MemoryReactor::Shared> shared, std::unique_ptr<Reactor> reactor,
                  std::optional<JobSecret> job_secret)
      : StreamTransport(
            std::move(reactor),
            {.job_secret = std::move(job_secret),
             .eager_limit = network->options.eager_limit,
             .eager_budget = network->options.eager_budget,
             .shuffle_seed =
                 network->options.shuffle ? std::optional(network->options.seed) : std::nullopt}),
        network_(std::move(network)),
        host_(std::move(host)),
        reactor_(std::move(shared)) {}
  ~MemoryTransport() override {
    shut_down();
    const MutexLock lock(network_->mutex);
    if (listener_ != nullptr)
      std::erase_if(network_->listeners,
                    [this](const auto& each) { return each.second == listener_; });
  }

 private:
  class Acceptor final : public Pollable {
   public:
    Acceptor(MemoryTransport& transport, std::shared_ptr<Impl::Listener> listener)
        : transport_(transport), listener_(std::move(listener)) {}

    bool ready(bool&, bool) override {
      bool any = false;
      while (true) {
        std::pair<std::unique_ptr<Stream>, std::string> next;
        {
          const MutexLock lock(transport_.network_->mutex);
          if (listener_->incoming.empty()) return any;
          next = std::move(listener_->incoming.front());
          listener_->incoming.pop_front();
        }
        transport_.on_incoming_stream(std::move(next.first), {.host = next.second, .port = 0});
        any = true;
      }
    }

   private:
    MemoryTransport& transport_;
    const std::shared_ptr<Impl::Listener> listener_;
  };

  Address start_listening(const Address& address) override {
    STRATA_CHECK(address.host.empty() || address.host == host_, kInvalidArgument,
                 "[wire] listen: got ", address.to_string(), "; this transport is on host ", host_);
    const MutexLock lock(network_->mutex);
    Address bound = {.host = host_, .port = address.port};
    if (bound.port == 0) bound.port = network_->next_port++;
    const auto listener = std::make_shared<Impl::Listener>();
    STRATA_CHECK(network_->listeners.try_emplace({host_, bound.port}, listener).second,
                 kAlreadyExists, "[wire] listen: ", bound.to_string(), " is in use");
    listener->end = {.reactor = reactor_, .key = progress_engine()->new_key()};
    listener_ = listener;
    acceptor_ = std::make_shared<Acceptor>(*this, listener);
    progress_engine()->set(listener->end.key, acceptor_);
    return bound;
  }

  std::unique_ptr<Stream> dial(const Address& address, Deadline, const std::stop_token&) override {
    const MutexLock lock(network_->mutex);
    STRATA_CHECK(!network_->link(host_, address.host).cut, kUnavailable, "the link from ", host_,
                 " to ", address.host, " is cut");
    const auto found = network_->listeners.find({address.host, address.port});
    STRATA_CHECK(found != network_->listeners.end(), kUnavailable, "no task listens at ",
                 address.to_string());
    Impl::Listener& listener = *found->second;
    auto out = make_pipe(host_, address.host, reactor_, listener.end.reactor);
    auto in = make_pipe(address.host, host_, listener.end.reactor, reactor_);
    listener.incoming.emplace_back(std::make_unique<MemoryStream>(network_, in, out), host_);
    listener.end.announce(std::chrono::steady_clock::now());
    return std::make_unique<MemoryStream>(network_, std::move(out), std::move(in));
  }

  std::shared_ptr<MemoryPipe> make_pipe(const std::string& from, const std::string& to,
                                        const std::shared_ptr<MemoryReactor::Shared>& writer,
                                        const std::shared_ptr<MemoryReactor::Shared>& reader)
      STRATA_REQUIRES(network_->mutex) {
    auto pipe = std::make_shared<MemoryPipe>();
    pipe->from = from;
    pipe->to = to;
    pipe->writer.reactor = writer;
    pipe->reader.reactor = reader;
    pipe->random.seed(network_->options.seed * 1'000'003 + network_->pipes_made++);
    std::erase_if(network_->pipes, [](const auto& each) { return each.expired(); });
    network_->pipes.push_back(pipe);
    return pipe;
  }

  const std::shared_ptr<Impl> network_;
  const std::string host_;
  const std::shared_ptr<MemoryReactor::Shared> reactor_;
  std::shared_ptr<Impl::Listener> listener_;
  std::shared_ptr<Acceptor> acceptor_;
};

}  // namespace

MemoryNetwork::MemoryNetwork(const MemoryNetworkOptions& options)
    : impl_(std::make_shared<Impl>(options)) {}

MemoryNetwork::~MemoryNetwork() = default;

std::unique_ptr<Transport> MemoryNetwork::transport(const std::string& host,
                                                    std::optional<JobSecret> job_secret) {
  auto reactor = std::make_unique<MemoryReactor>();
  const auto shared = reactor->shared();
  return std::make_unique<MemoryTransport>(impl_, host, shared, std::move(reactor),
                                           std::move(job_secret));
}

void MemoryNetwork::set_link(const std::string& from, const std::string& to,
                             const LinkOptions& link) {
  const MutexLock lock(impl_->mutex);
  impl_->link(from, to).options = link;
}

void MemoryNetwork::cut(const std::string& a, const std::string& b) {
  const MutexLock lock(impl_->mutex);
  impl_->link(a, b).cut = impl_->link(b, a).cut = true;
  impl_->break_all(a, b);
}

void MemoryNetwork::cut_after(const std::string& from, const std::string& to, uint64_t bytes) {
  const MutexLock lock(impl_->mutex);
  impl_->link(from, to).bytes_until_cut = bytes;
}

void MemoryNetwork::silence(const std::string& a, const std::string& b) {
  const MutexLock lock(impl_->mutex);
  impl_->link(a, b).silent = impl_->link(b, a).silent = true;
}

void MemoryNetwork::heal(const std::string& a, const std::string& b) {
  const MutexLock lock(impl_->mutex);
  for (MemoryLink* link : {&impl_->link(a, b), &impl_->link(b, a)}) {
    link->cut = link->silent = false;
    link->bytes_until_cut.reset();
  }
  for (const auto& each : impl_->pipes) {
    const auto pipe = each.lock();
    if (pipe == nullptr) continue;
    if ((pipe->from == a && pipe->to == b) || (pipe->from == b && pipe->to == a))
      pipe->reader.announce(std::chrono::steady_clock::now());
  }
}

}  // namespace strata::wire
