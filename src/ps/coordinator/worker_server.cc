#include "strata/ps/worker_server.h"

#include <ATen/ThreadLocalState.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/failure_detector.h"
#include "cluster/make_transport.h"
#include "core/mutex.h"
#include "core/seconds.h"
#include "core/thread.h"
#include "core/wait_notice.h"
#include "ps/coordinator/progress_thread.h"
#include "ps/coordinator/worker_session.h"
#include "ps/failure_log.h"
#include "ps/permissions.h"
#include "strata/cluster/roles.h"
#include "strata/core/interrupt.h"
#include "strata/core/log.h"

namespace strata::ps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTickInterval = std::chrono::milliseconds(5);
constexpr uint64_t kCoordinator = 0;  // the peer that is watched
constexpr auto kCloseWithin = std::chrono::seconds(2);

/// Which coordinator is served. Belongs to the transport, too, which may outlive the server.
class PeerAuthorizer {
 public:
  PeerAuthorizer(cluster::ClusterSpec spec, std::string task, cluster::TaskId coordinator)
      : spec_(std::move(spec)), task_(std::move(task)), coordinator_(std::move(coordinator)) {}

  Status authorize(const wire::Hello& peer) const {
    const auto refuse = [&](const std::string& why) {
      return Status(ErrorCode::kPermissionDenied,
                    str_cat("[ps] ", task_, " refuses ", peer.task, ": ", why));
    };
    if (peer.purpose != kCoordinatorPurpose) {
      return refuse(
          str_cat("got purpose \"", peer.purpose, "\"; expected \"", kCoordinatorPurpose, "\""));
    }
    const Status may = permitted(spec_, peer.task, Action::kCoordinate, coordinator_);
    if (!may.ok()) return refuse(str_cat(may.message(), " (WorkerOptions::coordinator)"));
    const MutexLock lock(mutex_);
    if (served_ && *served_ != peer.generation) {
      return refuse(str_cat("it serves another coordinator, ", whom_,
                            "; one at a time, or wait until that one is lost"));
    }
    return {};
  }

  void serve(const wire::Connection& connection) {
    const MutexLock lock(mutex_);
    served_ = connection.peer().generation;
    whom_ = connection.name();
  }
  void release() {
    const MutexLock lock(mutex_);
    served_.reset();
  }

 private:
  const cluster::ClusterSpec spec_;
  const std::string task_;
  const cluster::TaskId coordinator_;
  mutable Mutex mutex_;
  std::optional<uint64_t> served_ STRATA_GUARDED_BY(mutex_);  // its incarnation
  std::string whom_ STRATA_GUARDED_BY(mutex_);
};

WorkerOptions checked(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                      WorkerOptions options) {
  STRATA_CHECK(task.job == cluster::kWorker && spec.has_task(task), kInvalidArgument,
               "[ps] WorkerServer: got the task ", task.to_string(), "; expected a worker of ",
               spec.to_string());
  STRATA_CHECK(options.threads >= 1, kInvalidArgument, "[ps] WorkerServer: got ", options.threads,
               " threads; expected 1 at least");
  cluster::check_liveness(options.server.liveness, "[ps] WorkerServer");
  return options;
}

}  // namespace

struct WorkerServer::Impl {
  Impl(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
       const FunctionRegistry& registry, WorkerOptions options);
  ~Impl();

  void join(const std::stop_token& stop);

  void work();
  void work_once();
  void accept_coordinator(std::shared_ptr<wire::Connection> connection, Clock::time_point now)
      STRATA_REQUIRES(mutex_);
  void lose(const Status& status) STRATA_REQUIRES(mutex_);
  void tick(Clock::time_point now) STRATA_REQUIRES(mutex_);
  void end(Status status) STRATA_REQUIRES(mutex_);
  void retire_session(WorkerSession& session) STRATA_REQUIRES(mutex_);
  template <typename Work>
  void with_session(Work work) STRATA_REQUIRES(mutex_);
  bool has_work() const STRATA_REQUIRES(mutex_) {
    return !retired_.empty() || (session_ != nullptr && session_->has_task());
  }

  // On threads that call functions.
  void serve(const std::stop_token& stop);
  WorkerSession::Done call(const WorkerSession::Task& task) const;

  const cluster::ClusterSpec spec_;
  const cluster::TaskId task_;
  const int num_workers_;
  const FunctionRegistry registry_;
  std::vector<FunctionRegistry::Found> functions_;
  const WorkerOptions options_;
  const std::shared_ptr<wire::Transport> transport_;
  const std::shared_ptr<PeerAuthorizer> authorizer_;
  std::string address_;
  std::atomic<uint64_t> calls_{0};
  FailureLog failures_;

  Mutex mutex_;
  std::shared_ptr<WorkerSession> session_ STRATA_GUARDED_BY(mutex_);  // null: no coordinator
  int serving_ STRATA_GUARDED_BY(mutex_) = 0;                         // threads that call functions
  // Those of them that have nothing to call.
  int waiting_ STRATA_GUARDED_BY(mutex_) = 0;
  // Functions, those of former sessions among them.
  int running_ STRATA_GUARDED_BY(mutex_) = 0;
  // Objects that a thread which calls functions destroys.
  WorkerSession::RetiredObjects retired_ STRATA_GUARDED_BY(mutex_);
  int burying_ STRATA_GUARDED_BY(mutex_) = 0;  // threads that do
  Clock::time_point alone_since_ STRATA_GUARDED_BY(mutex_);
  Clock::time_point next_tick_ STRATA_GUARDED_BY(mutex_);
  cluster::FailureDetector detector_ STRATA_GUARDED_BY(mutex_);  // of the session's coordinator
  // While there is no session.
  std::optional<strata::detail::WaitNotice> alone_notice_ STRATA_GUARDED_BY(mutex_);
  std::string alone_why_ STRATA_GUARDED_BY(mutex_) = "no coordinator has ever connected";
  std::optional<Status> ended_ STRATA_GUARDED_BY(mutex_);

  std::optional<ProgressThread> progress_thread_;
};

WorkerServer::Impl::Impl(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                         const FunctionRegistry& registry, WorkerOptions options)
    : spec_(spec),
      task_(task),
      num_workers_(spec.has_job(cluster::kWorker) ? spec.num_tasks(cluster::kWorker) : 0),
      registry_(registry),
      options_(checked(spec, task, std::move(options))),
      transport_(cluster::make_transport(options_.server)),
      authorizer_(std::make_shared<PeerAuthorizer>(spec, task.to_string(), options_.coordinator)),
      alone_since_(Clock::now()),
      next_tick_(alone_since_ + kTickInterval),
      detector_(cluster::control_timing(options_.server.liveness), alone_since_) {
  while (const auto found = registry_.at(static_cast<uint32_t>(functions_.size()))) {
    functions_.push_back(*found);
  }
  const wire::Address at =
      wire::Address::parse(options_.server.listen_address.value_or(spec.task_address(task)));
  const wire::Hello hello = {
      .job = options_.server.job, .task = task.to_string(), .generation = 0, .purpose = "worker"};
  address_ =
      transport_
          ->listen(at, hello,
                   {.admit = [authorizer = authorizer_](
                                 const wire::Hello& peer,
                                 const wire::Address&) { return authorizer->authorize(peer); }})
          .to_string();
  progress_thread_.emplace("strata-worker", *transport_, [this] { work(); });
}

WorkerServer::Impl::~Impl() {
  progress_thread_->stop();
  const MutexLock lock(mutex_);
  if (session_ != nullptr) lose({ErrorCode::kUnavailable, "[ps] the worker has disconnected"});
}

/// Nothing that a peer causes ends the thread that calls it.
void WorkerServer::Impl::work() {
  try {
    work_once();
  } catch (...) {
    failures_.log("the worker's server", Status::from_current_exception());
  }
}

void WorkerServer::Impl::work_once() {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    const Clock::time_point now = Clock::now();
    while (auto connection = transport_->try_accept())
      accept_coordinator(std::move(connection), now);
    if (session_ != nullptr && !ended_) {
      with_session([&](WorkerSession& session) STRATA_REQUIRES(mutex_) {
        if (session.poll(now)) detector_.heard(kCoordinator, now);
        detector_.received(kCoordinator, session.connection().counts().bytes_received, now);
        retire_session(session);
        // What still runs, or is being destroyed, is of a session before.
        if (serving_ > 0 && running_ == 0 && burying_ == 0 && retired_.empty()) {
          session.open_if_asked(options_.threads);
        }
        if (session.anything_waits()) session.flush();
        if (session.said_end()) end(Status());
      });
    }
    if (now >= next_tick_) tick(now);
    wake = waiting_ > 0 && (ended_ || has_work());
  }
  if (wake) transport_->wake();
}

/// A failure of a session costs its coordinator the connection.
template <typename Work>
void WorkerServer::Impl::with_session(Work work) {
  const std::shared_ptr<WorkerSession> session = session_;
  try {
    work(*session);
  } catch (...) {
    const Status status = Status::from_current_exception();
    if (session == session_) lose(Status(ErrorCode::kUnavailable, status.message()));
  }
}

void WorkerServer::Impl::accept_coordinator(std::shared_ptr<wire::Connection> connection,
                                            Clock::time_point now) {
  if (ended_) return connection->fail({ErrorCode::kCancelled, "[ps] the worker has ended"});
  if (session_ != nullptr) {
    if (session_->connection().peer().generation != connection->peer().generation) {
      // Both came before one of them was here.
      return connection->fail({ErrorCode::kPermissionDenied,
                               str_cat("[ps] ", task_.to_string(), " serves another coordinator, ",
                                       session_->connection().name())});
    }
    lose({ErrorCode::kUnavailable, "[ps] the coordinator has connected anew"});
  }
  STRATA_LOG(kInfo) << "[ps] serves " << connection->name();
  authorizer_->serve(*connection);
  detector_.add(kCoordinator, now);
  session_ = std::make_shared<WorkerSession>(std::move(connection), registry_);
  alone_notice_.reset();
}

void WorkerServer::Impl::lose(const Status& status) {
  STRATA_LOG(kInfo) << "[ps] the coordinator is lost: " << status.message();
  session_->drop(status);
  retire_session(*session_);
  session_.reset();
  detector_.remove(kCoordinator);
  authorizer_->release();
  alone_since_ = Clock::now();
  alone_why_ = str_cat("the last one was lost: ", status.message());
}

void WorkerServer::Impl::retire_session(WorkerSession& session) {
  for (auto& each : session.take_dead()) retired_.push_back(std::move(each));
}

void WorkerServer::Impl::tick(Clock::time_point now) {
  next_tick_ = now + kTickInterval;
  const Clock::duration suspended = detector_.tick(now);
  if (ended_) return;
  if (session_ != nullptr) {
    if (detector_.is_lost(kCoordinator, now)) {
      lose({ErrorCode::kUnavailable,
            str_cat("[ps] the coordinator was silent for more than ",
                    strata::detail::in_seconds(detector_.timing().silence_limit), " s")});
    }
    return;
  }
  alone_since_ += suspended;
  if (serving_ > 0) {
    if (!alone_notice_) {
      alone_notice_.emplace(
          [this]() STRATA_REQUIRES(mutex_) {
            return str_cat("[ps] ", task_.to_string(), " at ", address_, ": waits for ",
                           options_.coordinator.to_string(), " to connect as coordinator; ",
                           alone_why_);
          },
          alone_since_, alone_since_ + options_.coordinator_timeout);
    }
    alone_notice_->look(now);
  }
  if (serving_ > 0 && now - alone_since_ >= options_.coordinator_timeout) {
    end({ErrorCode::kUnavailable,
         str_cat("[ps] ", task_.to_string(), " at ", address_,
                 ": no coordinator was connected for ",
                 strata::detail::in_seconds(options_.coordinator_timeout),
                 " s (WorkerOptions::coordinator_timeout); ", alone_why_)});
  }
}

void WorkerServer::Impl::end(Status status) {
  if (!ended_) ended_ = std::move(status);
}

WorkerSession::Done WorkerServer::Impl::call(const WorkerSession::Task& task) const {
  WorkerSession::Done done;
  if (task.creates) done.made = std::make_shared<detail::Resource>();
  std::string name = "an unknown function";
  const auto failed = [&](ErrorCode code, std::string_view what) {
    done.status = Status(code, str_cat("[ps] ", name, " on ", task_.to_string(), ": ", what));
  };
  const Clock::time_point start = Clock::now();
  try {
    STRATA_CHECK(task.function < functions_.size(), kDataLoss, "got function ", task.function,
                 "; expected one of ", functions_.size());
    const FunctionRegistry::Found& found = functions_[task.function];
    name = found.name;
    if (task.creates) done.made->name = name;
    STRATA_CHECK(task.values.size() == found.entry.parameters.size(), kDataLoss, "got ",
                 task.values.size(), " arguments; expected ", found.entry.parameters.size());
    STRATA_CHECK(task.creates || !found.entry.object, kDataLoss, "it makes per-worker objects");
    const CallContext context(task_, num_workers_, task.stop.get_token(), task.resources);
    if (found.entry.object) {
      done.made->type = found.entry.object;
      done.made->object = found.entry.make(context, task.values);
      STRATA_CHECK(done.made->object != nullptr, kInternal, "it made nothing");
    } else {
      (task.creates ? done.made->value : done.value) = found.entry.call(context, task.values);
    }
  } catch (const c10::Error& error) {
    failed(ErrorCode::kUnknown, error.what_without_backtrace());
  } catch (...) {
    const Status status = Status::from_current_exception();
    failed(status.code() == ErrorCode::kOk ? ErrorCode::kUnknown : status.code(), status.message());
  }
  done.run = Clock::now() - start;
  return done;
}

void WorkerServer::Impl::serve(const std::stop_token& stop) {
  while (true) {
    std::shared_ptr<WorkerSession::Task> task;
    std::shared_ptr<WorkerSession> session;
    WorkerSession::RetiredObjects dead;
    {
      const MutexLock lock(mutex_);
      if (ended_) return;
      dead.swap(retired_);
      if (dead.empty() && session_ != nullptr) {
        with_session([&](WorkerSession& each) { task = each.take(); });
      }
      if (!dead.empty()) {
        ++burying_;
      } else if (task != nullptr) {
        session = session_;
        ++running_;
      } else {
        ++waiting_;
      }
    }
    if (!dead.empty()) {
      dead.clear();
      const MutexLock lock(mutex_);
      --burying_;
      continue;
    }
    if (task == nullptr) {
      const bool found = progress_thread_->wait(
          [&] {
            const MutexLock lock(mutex_);
            return ended_ || has_work() || interrupted();
          },
          wire::Deadline::after(std::chrono::hours(1)), stop);
      const MutexLock lock(mutex_);
      --waiting_;
      if ((!found && stop.stop_requested()) || interrupted()) {
        end({ErrorCode::kCancelled, "[ps] join was stopped"});
        return;
      }
      continue;
    }
    WorkerSession::Done done = call(*task);
    calls_.fetch_add(1, std::memory_order_relaxed);
    const MutexLock lock(mutex_);
    --running_;
    if (session == session_) {
      with_session([&](WorkerSession& each) { each.end(*task, std::move(done), each.has_task()); });
    }
  }
}

void WorkerServer::Impl::join(const std::stop_token& stop) {
  {
    const MutexLock lock(mutex_);
    STRATA_CHECK(serving_ == 0, kFailedPrecondition,
                 "[ps] WorkerServer: join was called twice; make a new server");
    serving_ = options_.threads;
    alone_since_ = Clock::now();
  }
  // Functions that run when it is stopped are asked to stop, too.
  const std::stop_callback stopped(stop, [this] {
    const MutexLock lock(mutex_);
    end({ErrorCode::kCancelled, "[ps] join was stopped"});
    if (session_ != nullptr) lose({ErrorCode::kCancelled, "[ps] the worker was stopped"});
  });
  std::vector<Thread> others;
  const at::ThreadLocalState caller;
  for (int i = 1; i < options_.threads; ++i) {
    others.emplace_back(str_cat("strata-call-", i), [this, &caller, stop] {
      const at::ThreadLocalStateGuard guard(caller);
      serve(stop);
    });
  }
  serve(stop);
  others.clear();
  std::shared_ptr<wire::Connection> connection;
  Status outcome;
  {
    const MutexLock lock(mutex_);
    outcome = *ended_;
    if (session_ != nullptr) connection = session_->shared_connection();
  }
  if (connection != nullptr) connection->close(wire::Deadline::after(kCloseWithin));
  WorkerSession::RetiredObjects dead;
  {
    const MutexLock lock(mutex_);
    if (session_ != nullptr) lose({ErrorCode::kCancelled, "[ps] the worker has ended"});
    dead.swap(retired_);
  }
  dead.clear();
  outcome.throw_if_error();
}

WorkerServer::WorkerServer(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                           const FunctionRegistry& registry, WorkerOptions options)
    : impl_(std::make_unique<Impl>(spec, task, registry, std::move(options))) {}

WorkerServer::~WorkerServer() = default;

const std::string& WorkerServer::address() const { return impl_->address_; }

void WorkerServer::join(std::stop_token stop) { impl_->join(stop); }

uint64_t WorkerServer::calls() const { return impl_->calls_.load(std::memory_order_relaxed); }

}  // namespace strata::ps
