#include "strategies/standalone/server.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <utility>
#include <vector>

#include "core/memory_limit.h"
#include "core/random_hex.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strategies/standalone/session.h"
#include "wire/tcp/socket_transport.h"

namespace strata::standalone {
namespace {

constexpr std::chrono::seconds kOpenTime{10};    // for a client's first request
constexpr std::chrono::milliseconds kLook{500};  // at sessions that have ended
constexpr size_t kMostOpening = 32;
constexpr std::chrono::seconds kSilence{10};
constexpr size_t kTokenBytes = 16;
constexpr size_t kMostOpenBytes = size_t{64} << 10;

bool is_of_this_host(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

wire::Address checked_address(const ServerOptions& options) {
  wire::Address address = wire::Address::parse(options.listen);
  STRATA_CHECK(options.tls || options.job_secret || is_of_this_host(address.host), kInvalidArgument,
               "[standalone] server: got the address ", options.listen,
               " without certificates or a secret; expected --certificates DIR (strata certs makes "
               "them), STRATA_JOB_SECRET_FILE, or an address of this host alone, 127.0.0.1:PORT");
  return address;
}

}  // namespace

struct StandaloneServer::Impl {
  explicit Impl(const ServerOptions& options);

  void greet(const std::shared_ptr<wire::Connection>& connection, const std::stop_token& stop);
  void refuse(wire::Connection& connection, const Error& error) const;
  void remove_ended();

  const ServerOptions options;
  Budget budget;
  SessionSettings settings;
  std::string address;

  struct Greeter {
    std::atomic<bool> done = false;
    Thread thread;
  };
  mutable Mutex mutex;
  std::vector<std::unique_ptr<Session>> sessions STRATA_GUARDED_BY(mutex);
  std::list<Greeter> greeters;  // the accepting thread's
};

StandaloneServer::Impl::Impl(const ServerOptions& given)
    : options(given), budget(given.memory > 0 ? given.memory : detail::memory_limit() / 2) {
  const wire::Address at = checked_address(options);
  settings.transport = wire::make_socket_transport(
      {.tls = options.tls, .job_secret = options.job_secret, .silence_limit = kSilence});
  settings.limits.step_time = options.step_time;
  settings.limits.graph_bytes = options.graph_bytes;
  settings.limits.data = options.data;
  settings.keep = options.keep;
  settings.group.tls = options.tls;
  settings.group.job_secret = options.job_secret;
  settings.group.wait_timeout =
      std::chrono::ceil<std::chrono::milliseconds>(options.keep + options.step_time);
  settings.address = settings.transport->listen(
      at, {.job = std::string(kJob), .task = options.task, .purpose = "server"},
      {.admit = [](const wire::Hello& peer, const wire::Address&) {
        if (peer.purpose == kPurpose) return Status();
        return Status(ErrorCode::kPermissionDenied,
                      str_cat("[standalone] got purpose \"", peer.purpose, "\"; expected \"",
                              kPurpose, "\": this is a server of strata's for standalone clients"));
      }});
  address = settings.address.to_string();
}

void StandaloneServer::Impl::refuse(wire::Connection& connection, const Error& error) const {
  connection.send_message(kControlChannel, encode(Reply{.code = static_cast<uint64_t>(error.code()),
                                                        .message = error.what()}));
  constexpr std::chrono::seconds kRefusalTime{2};
  connection.close(wire::Deadline::after(kRefusalTime));
}

/// A client's first request: which session it wants.
void StandaloneServer::Impl::greet(const std::shared_ptr<wire::Connection>& connection,
                                   const std::stop_token& stop) {
  const std::string& owner = connection->peer().task;
  const std::string text =
      connection->receive_message(kControlChannel, wire::Deadline::after(kOpenTime), stop);
  STRATA_CHECK(text.size() <= kMostOpenBytes, kResourceExhausted,
               "[standalone] got a first request of ", text.size(), " bytes; expected ",
               kMostOpenBytes, " at most");
  Request open = decode_request(text);
  STRATA_CHECK(open.kind == RequestKind::kOpen && open.protocol == kProtocol, kUnimplemented,
               "[standalone] got a first request of kind ", static_cast<uint64_t>(open.kind),
               " and protocol ", open.protocol, "; expected open, and ", kProtocol,
               ": use one strata on clients and servers");
  const MutexLock lock(mutex);
  if (!open.session.empty()) {
    const auto found = std::ranges::find_if(sessions, [&](const auto& session) {
      return session->token() == open.session && session->owner() == owner && !session->ended();
    });
    STRATA_CHECK(found != sessions.end(), kNotFound, "[standalone] there is no such session of ",
                 owner,
                 " here: it was closed, or its client stayed away for too long; begin a new one");
    return (*found)->attach(connection, std::move(open));
  }
  const auto alive =
      std::ranges::count_if(sessions, [](const auto& each) { return !each->ended(); });
  STRATA_CHECK(static_cast<size_t>(alive) < options.sessions, kResourceExhausted,
               "[standalone] the server has ", alive,
               " sessions, and no more are allowed; close "
               "one, or start it with more --sessions");
  sessions.push_back(
      std::make_unique<Session>(detail::random_hex(kTokenBytes), owner, settings, budget));
  STRATA_LOG(kInfo) << "[standalone] session " << sessions.back()->token().substr(0, 8) << " of "
                    << connection->name();
  sessions.back()->attach(connection, std::move(open));
}

void StandaloneServer::Impl::remove_ended() {
  std::vector<std::unique_ptr<Session>> ended;
  {
    const MutexLock lock(mutex);
    for (auto& session : sessions) {
      if (session->ended()) ended.push_back(std::move(session));
    }
    std::erase(sessions, nullptr);
  }
  greeters.remove_if([](const Greeter& greeter) { return greeter.done.load(); });
}

StandaloneServer::StandaloneServer(const ServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

StandaloneServer::~StandaloneServer() {
  impl_->greeters.clear();
  const MutexLock lock(impl_->mutex);
  impl_->sessions.clear();
}

const std::string& StandaloneServer::address() const { return impl_->address; }

size_t StandaloneServer::num_sessions() const {
  const MutexLock lock(impl_->mutex);
  return static_cast<size_t>(
      std::ranges::count_if(impl_->sessions, [](const auto& each) { return !each->ended(); }));
}

void StandaloneServer::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    impl_->remove_ended();
    std::shared_ptr<wire::Connection> connection;
    try {
      connection = impl_->settings.transport->accept(wire::Deadline::after(kLook), stop);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeadlineExceeded || stop.stop_requested()) continue;
      throw;
    }
    if (impl_->greeters.size() >= kMostOpening) {
      connection->fail({ErrorCode::kResourceExhausted,
                        "[standalone] too many clients connect at once; try again"});
      continue;
    }
    Impl::Greeter& greeter = impl_->greeters.emplace_back();
    greeter.thread = Thread("greeter", [this, connection, &greeter](const std::stop_token& ends) {
      try {
        impl_->greet(connection, ends);
      } catch (const Error& error) {
        try {
          impl_->refuse(*connection, error);
        } catch (const Error&) {  // it does not wait for the reason
        }
      }
      greeter.done = true;
    });
  }
}

}  // namespace strata::standalone
