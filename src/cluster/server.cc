#include "strata/cluster/server.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cluster/control_loop.h"
#include "cluster/data_connections.h"
#include "cluster/failure_detector.h"
#include "cluster/local_host.h"
#include "cluster/make_transport.h"
#include "cluster/peer_authorizer.h"
#include "core/log_limiter.h"
#include "core/mutex.h"
#include "core/thread.h"
#include "core/wait_notice.h"
#include "strata/cluster/roles.h"
#include "strata/core/log.h"

namespace strata::cluster {
namespace {

constexpr auto kExplainFor = std::chrono::seconds(2);

std::vector<TaskId> members_of(const ClusterSpec& spec, const TaskId& task,
                               const ServerOptions& options) {
  if (task.job == kEvaluator) return {task};
  const auto all = cluster::members(spec);
  if (options.members.empty()) return all;
  std::vector<TaskId> chosen = {leader(spec)};
  for (const TaskId& member : all) {
    if (member != chosen.front() && std::ranges::count(options.members, member) > 0) {
      chosen.push_back(member);
    }
  }
  for (const TaskId& member : options.members) {
    STRATA_CHECK(std::ranges::count(chosen, member) == 1, kInvalidArgument,
                 "[cluster] Server: got the member ", member.to_string(), "; expected tasks of ",
                 spec.to_string(), " but the evaluator");
  }
  STRATA_CHECK(std::ranges::count(chosen, task) == 1, kInvalidArgument, "[cluster] Server: got ",
               task.to_string(), ", which is not among `members`; add it");
  return chosen;
}

}  // namespace

struct Server::Impl {
  Impl(const ClusterSpec& spec, const TaskId& task, ServerOptions options);
  ~Impl() { stop(wire::Deadline::after({})); }

  void listen(wire::Deadline deadline);
  void wait_for_name(const std::string& host, wire::Deadline deadline);
  void attach(wire::Deadline deadline);
  void join(bool exclude_lost, wire::Deadline deadline);
  void accept(const std::stop_token& stop);
  wire::Hello hello(std::string purpose) const {
    return {.job = options.job, .task = task.to_string(), .purpose = std::move(purpose)};
  }
  Member member(const TaskId& peer) const;
  uint64_t next_round(const std::string& name);
  Status root_cause(const std::vector<ControlMessage>& reports, const Status& seen);
  void stop(wire::Deadline deadline);

  const ClusterSpec spec;
  const TaskId task;
  const ServerOptions options;
  const std::vector<TaskId> members;
  const std::shared_ptr<wire::Transport> transport;
  DataConnections data;
  const std::shared_ptr<PeerAuthorizer> authorizer;
  std::string address;  // where others find this task
  std::unique_ptr<ControlLoop> control;
  Thread acceptor;
  bool ended = false;  // shutdown was called

  Mutex mutex;
  // Of barriers, in this generation.
  std::map<std::string, uint64_t> rounds STRATA_GUARDED_BY(mutex);
};

Server::Impl::Impl(const ClusterSpec& spec_in, const TaskId& task_in, ServerOptions options_in)
    : spec(spec_in),
      task(task_in),
      options(std::move(options_in)),
      members(members_of(spec, task, options)),
      transport(make_transport(options)),
      data(*transport),
      authorizer(std::make_shared<PeerAuthorizer>(
          task, members,
          spec.has_task(members.front()) ? spec.task_address(members.front()) : "")) {
  check_liveness(options.liveness, "[cluster] Server");
  const auto deadline = wire::Deadline::after(options.start_timeout);
  if (members.size() > 1) listen(deadline);
  control = std::make_unique<ControlLoop>(
      ControlLoop::Options{.spec = spec,
                           .task = task,
                           .leader = members.front(),
                           .members = members,
                           .liveness = options.liveness},
      *transport,
      [this](const Status& status, uint64_t generation) { data.fail(status, generation); });
  if (members.size() > 1) {
    acceptor = Thread("strata-accept", [this](std::stop_token stop) { accept(stop); });
  }
  try {
    join(false, deadline);
  } catch (...) {
    stop(wire::Deadline::after(std::chrono::seconds(1)));  // others are still to hear why
    throw;
  }
}

// Until its name is known, which for a pod behind a headless Service may be after it has started.
void Server::Impl::wait_for_name(const std::string& host, wire::Deadline deadline) {
  if (options.transport) return;  // names of another network
  const auto never = [] { return false; };
  std::string why;
  strata::detail::WaitNotice notice(
      [&] { return str_cat("[cluster] ", task.to_string(), " waits for a name: ", why); },
      Clock::system().now(), deadline.time());
  while (true) {
    try {
      return look_up_host(host, deadline);
    } catch (const Error& error) {
      why = error.what();
    }
    const auto pause = wire::Deadline::after(std::chrono::milliseconds(250));
    (void)transport->wait_until(never, wire::Deadline::sooner(deadline, pause));
    if (deadline.passed()) throw Error(ErrorCode::kInvalidArgument, why);
    notice.look(Clock::system().now());
  }
}

void Server::Impl::listen(wire::Deadline deadline) {
  const std::string& listed = spec.task_address(task);
  const bool leads = task == members.front();
  wire::Address published;
  if (listed == ":0") {
    STRATA_CHECK(!leads, kInvalidArgument, "[cluster] Server: got \":0\" for the leader ",
                 task.to_string(), ", which no other task can reach; give it a host and a port");
    const std::string host = wire::Address::parse(spec.task_address(members.front())).host;
    try {
      wait_for_name(host, deadline);
      published.host = local_host_towards(host, deadline);
    } catch (const Error& error) {
      throw Error(error.code(),
                  str_cat("[cluster] ", task.to_string(), " finds no way to the leader ",
                          members.front().to_string(), " at ", spec.task_address(members.front()),
                          ": ", error.what()));
    }
  } else {
    published = wire::Address::parse(listed);
    STRATA_CHECK(!leads || published.port != 0 || options.listen_address, kInvalidArgument,
                 "[cluster] Server: got port 0 for the leader ", task.to_string(), " at ", listed,
                 ", which no other task can reach; give it a port");
  }
  const wire::Address at =
      options.listen_address ? wire::Address::parse(*options.listen_address) : published;
  const wire::ListenOptions visitors = {
      .admit = [authorizer = authorizer](
                   const wire::Hello& peer,
                   const wire::Address&) { return authorizer->authorize(peer); },
      .arrived = [authorizer = authorizer] { authorizer->arrived(); }};
  try {
    wait_for_name(at.host, deadline);
    const wire::Address bound = transport->listen(at, hello(""), visitors);
    if (published.port == 0) published.port = bound.port;
  } catch (const Error& error) {
    const bool taken = error.code() == ErrorCode::kAlreadyExists;
    throw Error(error.code(),
                str_cat("[cluster] ", task.to_string(), " cannot listen at ", at.to_string(), ": ",
                        error.what(),
                        taken ? "; end the process that has it, or give this task another port"
                              : "; is this the host that the cluster spec means? Where its address "
                                "there is not an interface's, set listen_address"));
  }
  address = published.to_string();
}

// Does not wait on the transport (see ControlLoop::run).
void Server::Impl::accept(const std::stop_token& stop) {
  strata::detail::LogLimiter failures;
  while (authorizer->wait(stop)) {
    while (auto connection = transport->try_accept()) {
      try {
        const std::string purpose = connection->peer().purpose;
        if (purpose == kControl) {
          control->accept(std::move(connection));
        } else {
          data.accept(purpose.substr(kData.size()), std::move(connection));
        }
      } catch (...) {  // want of memory, say: that peer stays outside, and the others do not
        if (const auto more = failures.admit()) {
          STRATA_LOG(kError) << "[cluster] a peer could not be taken in: "
                             << Status::from_current_exception().message() << *more;
        }
      }
    }
  }
}

void Server::Impl::attach(wire::Deadline deadline) {
  const TaskId& leader = members.front();
  const auto to = wire::Address::parse(spec.task_address(leader));
  try {
    control->attach(transport->connect(to, hello(std::string(kControl)), deadline,
                                       {.peer = leader.to_string()}));
  } catch (const Error& error) {
    throw Error(error.code(),
                str_cat("[cluster] rendezvous: ", task.to_string(), " could not reach the leader ",
                        leader.to_string(), " at ", to.to_string(), ": ", error.what()));
  }
}

// A leader that ends before all have joined may be restarted: it is looked for until the deadline.
void Server::Impl::join(bool exclude_lost, wire::Deadline deadline) {
  while (true) {
    if (!control->leads() && !control->attached()) attach(deadline);
    try {
      return control->join(address, exclude_lost, deadline);
    } catch (const Error& error) {
      const bool broken =
          error.code() == ErrorCode::kUnavailable && !control->leads() && !control->attached();
      if (!broken || deadline.passed()) throw;
      STRATA_LOG(kInfo) << error.what() << "; trying again";
    }
  }
}

Member Server::Impl::member(const TaskId& peer) const {
  for (Member& each : control->members()) {
    if (each.task == peer) return each;
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[cluster] connect: got ", peer.to_string(),
                      ", which takes no part in generation ", control->generation()));
}

uint64_t Server::Impl::next_round(const std::string& name) {
  const MutexLock lock(mutex);
  return rounds[name]++;
}

void Server::Impl::stop(wire::Deadline deadline) {
  if (acceptor.joinable()) {
    acceptor.request_stop();
    acceptor.join();
  }
  // Peers close their ends as soon as they read of it; one that hangs is not waited for.
  deadline = wire::Deadline::sooner(deadline, wire::Deadline::after(std::chrono::seconds(5)));
  data.close(deadline);
  if (control) control->stop(deadline);
}

Server::Server(const ClusterSpec& spec, const TaskId& task, ServerOptions options) {
  check_cluster(spec, task);
  impl_ = std::make_unique<Impl>(spec, task, std::move(options));
}

Server::~Server() = default;

const ClusterSpec& Server::spec() const { return impl_->spec; }
const TaskId& Server::task() const { return impl_->task; }
TaskId Server::leader() const { return impl_->members.front(); }
uint64_t Server::generation() const { return impl_->control->generation(); }
std::vector<Member> Server::members() const { return impl_->control->members(); }
Status Server::status() const { return impl_->control->failure(); }
std::stop_token Server::failed() const { return impl_->control->failed(); }
std::vector<TaskId> Server::newcomers() const { return impl_->control->newcomers(); }
wire::Transport& Server::transport() { return *impl_->transport; }

void Server::set_operation(std::string_view operation) { impl_->control->set_operation(operation); }

namespace {

// The leader answers these at once.
wire::Deadline at_once() { return wire::Deadline::after(std::chrono::seconds(30)); }

ControlMessage message(MessageKind kind, const std::string& name, std::string_view value = {}) {
  ControlMessage message;
  message.kind = kind;
  message.name = name;
  message.value = value;
  return message;
}

}  // namespace

void Server::set(const std::string& key, std::string_view value, bool replace) {
  auto request = message(MessageKind::kSet, key, value);
  request.flag = replace;
  (void)impl_->control->call(std::move(request), at_once());
}

std::string Server::get(const std::string& key, wire::Deadline deadline) {
  return impl_->control->call(message(MessageKind::kGet, key), deadline).value;
}

std::optional<std::string> Server::try_get(const std::string& key) {
  auto request = message(MessageKind::kGet, key);
  request.number = 1;
  auto answer = impl_->control->call(std::move(request), at_once());
  return answer.flag ? std::optional(std::move(answer.value)) : std::nullopt;
}

Server::Swap Server::compare_and_set(const std::string& key,
                                     const std::optional<std::string>& expected,
                                     std::string_view value) {
  auto request = message(MessageKind::kCompareAndSet, key, value);
  request.expected = expected;
  auto answer = impl_->control->call(std::move(request), at_once());
  return {.swapped = answer.flag, .value = std::move(answer.expected)};
}

bool Server::erase(const std::string& key) {
  return impl_->control->call(message(MessageKind::kErase, key), at_once()).flag;
}

void Server::barrier(const std::string& name, wire::Deadline deadline, std::vector<TaskId> tasks) {
  if (impl_->task.job == kEvaluator) return;
  if (tasks.empty()) {
    for (const Member& member : members()) {
      if (member.task.job != kPs) tasks.push_back(member.task);
    }
  }
  auto request = message(MessageKind::kBarrier, name);
  for (const TaskId& task : tasks) request.tasks.push_back({task.to_string(), ""});
  request.number = impl_->next_round(name);
  (void)impl_->control->call(std::move(request), deadline);
}

std::shared_ptr<wire::Connection> Server::connect(const TaskId& peer, const std::string& purpose,
                                                  wire::Deadline deadline) {
  STRATA_CHECK(peer != impl_->task, kInvalidArgument, "[cluster] connect: got ", peer.to_string(),
               ", which is this task itself");
  const Member member = impl_->member(peer);
  const DataConnections::Peer to = {
      .task = peer, .address = member.address, .generation = generation()};
  const auto stop = failed();
  const auto place = [&](const TaskId& task) {
    return std::ranges::find(impl_->members, task) - impl_->members.begin();
  };
  const bool dials = place(impl_->task) > place(peer);
  // The peer takes part, so it listens: if it cannot be reached for so long, a link is cut.
  const auto reach = wire::Deadline::after(impl_->options.liveness);
  try {
    auto connection = dials ? impl_->data.dial(to, purpose, impl_->hello(str_cat(kData, purpose)),
                                               wire::Deadline::sooner(deadline, reach), stop)
                            : impl_->data.await(to, purpose, deadline, stop);
    if (connection != nullptr && !stop.stop_requested()) return connection;
  } catch (const Error& error) {
    const bool cut = dials && error.code() == ErrorCode::kDeadlineExceeded && !deadline.passed();
    if (cut) root_cause(peer, Status(error.code(), error.what())).throw_if_error();
    // The peer may be lost, and the leader about to say so.
    const bool broken = error.code() == ErrorCode::kUnavailable ||
                        error.code() == ErrorCode::kCancelled || stop.stop_requested();
    if (!broken) throw;
  }
  (void)impl_->control->wait_for_failure(
      wire::Deadline::sooner(deadline, wire::Deadline::after(kExplainFor)));
  status().throw_if_error();
  throw Error(ErrorCode::kUnavailable, str_cat("[cluster] connect: ", peer.to_string(), " at ",
                                               member.address, " closed the connection"));
}

Status Server::Impl::root_cause(const std::vector<ControlMessage>& reports, const Status& seen) {
  for (const ControlMessage& report : reports) {
    if (!control->failure().ok()) break;
    control->post(report);
  }
  (void)control->wait_for_failure(wire::Deadline::after(kExplainFor));
  const Status known = control->failure();
  return known.ok() ? seen : known;
}

Status Server::root_cause(const TaskId& peer, const Status& seen) {
  return impl_->root_cause({message(MessageKind::kSuspect, peer.to_string(), seen.message())},
                           seen);
}

Status Server::root_cause(const Status& seen) {
  std::vector<ControlMessage> reports;
  for (const TaskId& peer : impl_->data.broken()) {
    reports.push_back(message(MessageKind::kSuspect, peer.to_string(), seen.message()));
  }
  if (reports.empty()) {
    reports.push_back(message(MessageKind::kAbort, "", seen.message()));
    reports.back().code = seen.code();
  }
  return impl_->root_cause(reports, seen);
}

void Server::abort(const std::string& reason) {
  impl_->control->post(message(MessageKind::kAbort, "", reason));
}

void Server::rejoin(wire::Deadline deadline, bool exclude_lost) {
  impl_->data.fail({ErrorCode::kAborted, "[cluster] the generation is over"}, generation());
  {
    const MutexLock lock(impl_->mutex);
    impl_->rounds.clear();
  }
  impl_->join(exclude_lost, deadline);
}

void Server::shutdown(wire::Deadline deadline) {
  if (std::exchange(impl_->ended, true)) return;
  impl_->control->leave(deadline);
  impl_->stop(deadline);
}

}  // namespace strata::cluster
