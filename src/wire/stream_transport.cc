#include "wire/stream_transport.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/wait_notice.h"
#include "strata/core/log.h"

namespace strata::wire {
namespace {

constexpr std::chrono::seconds kHandshakeLimit(10);
constexpr std::chrono::seconds kInTime(3);  // a peer of the job has finished its handshake
constexpr size_t kMaxPendingHandshakes = 128;

}  // namespace

StreamTransport::StreamTransport(std::unique_ptr<Reactor> reactor,
                                 const StreamTransportOptions& options)
    : options_(options), progress_(std::make_shared<ProgressEngine>(std::move(reactor))) {}

StreamTransport::~StreamTransport() { shut_down(); }

void StreamTransport::shut_down() {
  std::vector<std::weak_ptr<Session>> sessions;
  std::deque<PendingHandshake> pending;
  {
    const MutexLock lock(mutex_);
    sessions.swap(sessions_);
    pending.swap(pending_handshakes_);
    accepted_.clear();
  }
  for (const PendingHandshake& each : pending) progress_->remove(each.key);
  for (const auto& each : sessions) {
    if (const auto session = each.lock())
      session->fail({ErrorCode::kCancelled, "its transport was destroyed"});
  }
}

bool StreamTransport::progress() {
  expire_handshakes();
  return progress_->progress();
}

bool StreamTransport::do_wait_until(const std::function<bool()>& done, Deadline deadline,
                                    std::stop_token stop) {
  if (pending_count_.load(std::memory_order_relaxed) == 0)
    return progress_->wait_until(done, deadline, stop);
  // There are new streams: poll them regularly.
  while (true) {
    expire_handshakes();
    const Deadline next = Deadline::sooner(deadline, Deadline::after(std::chrono::seconds(1)));
    if (progress_->wait_until(done, next, stop)) return true;
    if (deadline.passed() || stop.stop_requested()) return false;
  }
}

Address StreamTransport::listen(const Address& address, const Hello& hello,
                                const ListenOptions& options) {
  encode_hello({.hello = hello});  // throws where it cannot be said
  {
    const MutexLock lock(mutex_);
    STRATA_CHECK(!std::exchange(listening_, true), kFailedPrecondition, "[wire] listen: got ",
                 address.to_string(),
                 ", but this transport listens already; use one transport a task");
    hello_ = hello;
    listen_options_ = options;
  }
  try {
    return start_listening(address);
  } catch (...) {
    const MutexLock lock(mutex_);
    listening_ = false;
    throw;
  }
}

void StreamTransport::on_incoming_stream(std::unique_ptr<Stream> stream, const Address& from) {
  const uint64_t key = progress_->new_key();
  Stream& watched = *stream;
  std::shared_ptr<Handshake> handshake;
  bool crowded = false;
  {
    const MutexLock lock(mutex_);
    const HelloMessage own = {.hello = hello_,
                              .eager_limit = options_.eager_limit,
                              .eager_budget = options_.eager_budget};
    Handshake::PeerValidator validator;
    if (listen_options_.admit) {
      validator = [admit = listen_options_.admit, from](const Hello& peer) {
        return admit(peer, from);
      };
    }
    handshake = std::make_shared<Handshake>(
        false, std::move(stream), from, own, std::move(validator), Deadline::after(kHandshakeLimit),
        [this, key] { on_handshake_finished(key); }, options_.job_secret);
    crowded = pending_handshakes_.size() >= kMaxPendingHandshakes;
    pending_handshakes_.push_back(
        {.key = key, .handshake = handshake, .in_time = Deadline::after(kInTime)});
    pending_count_.store(pending_handshakes_.size(), std::memory_order_relaxed);
  }
  if (crowded) evict_handshake();  // perhaps its own
  watched.watch(key);              // first: once it is set, another thread may be done with it
  progress_->set(key, handshake);
}

/// Under a flood a peer of the job keeps its place for as long as its handshake takes, or finds one
/// when it comes again, which it does for as long as it was given. The host that has most places
/// gives one up: a flood from one host does not reach the peers on others. On that host, silent
/// peers go first where they are the flood, then those that do not go on with their handshake.
/// Where all of them speak, chance decides: whatever a stranger does to be the last to go, a peer
/// of the job does not need long, and so has a good chance to stay.
void StreamTransport::evict_handshake() {
  std::shared_ptr<Handshake> chosen;
  {
    const MutexLock lock(mutex_);
    if (pending_handshakes_.empty()) return;
    std::map<std::string_view, size_t> hosts;
    const auto host = [](const PendingHandshake& each) -> std::string_view {
      return each.handshake->address().host;
    };
    for (const PendingHandshake& each : pending_handshakes_) ++hosts[host(each)];
    const auto most =
        std::ranges::max_element(hosts, {}, [](const auto& each) { return each.second; });
    std::vector<const PendingHandshake*> there;
    std::vector<const PendingHandshake*> silent;
    for (const PendingHandshake& each : pending_handshakes_) {
      if (host(each) != most->first) continue;
      there.push_back(&each);
      if (each.handshake->silent()) silent.push_back(&each);
    }
    const bool silence = 2 * silent.size() > there.size();
    const bool slowness = there.front()->in_time.passed();
    chosen = (silence    ? silent.front()
              : slowness ? there.front()
                         : there[choice_() % there.size()])
                 ->handshake;
  }
  chosen->abort({ErrorCode::kUnavailable,
                 str_cat("more than ", kMaxPendingHandshakes, " handshakes were pending")});
}

bool StreamTransport::reject_idle_handshake() {
  std::shared_ptr<Handshake> idle;
  const char* why = "it was silent, and newer connections needed its place";
  {
    const MutexLock lock(mutex_);
    auto found = std::ranges::find_if(
        pending_handshakes_, [](const PendingHandshake& each) { return each.handshake->silent(); });
    if (found == pending_handshakes_.end()) {
      if (pending_handshakes_.empty() || !pending_handshakes_.front().in_time.passed())
        return false;
      found = pending_handshakes_.begin();
      why = "its handshake was slow, and newer connections needed its place";
    }
    idle = found->handshake;
  }
  idle->abort({ErrorCode::kUnavailable, why});
  return true;
}

// A handshake has ended: with a session, or without one.
void StreamTransport::on_handshake_finished(uint64_t key) {
  std::shared_ptr<Handshake> handshake;
  std::string own_task;
  {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find_if(
        pending_handshakes_, [&](const PendingHandshake& each) { return each.key == key; });
    if (found == pending_handshakes_.end()) return;
    handshake = found->handshake;
    pending_handshakes_.erase(found);
    pending_count_.store(pending_handshakes_.size(), std::memory_order_relaxed);
    own_task = hello_.task;
  }
  if (!handshake->status().ok()) {
    progress_->remove(key);
    log_refusal(*handshake);
    return;
  }
  auto session = make_session(*handshake, key, own_task);
  STRATA_VLOG(5) << "[wire] " << session->name() << " has come in (" << session->peer().purpose
                 << ")";
  std::function<void()> arrived;
  {
    const MutexLock lock(mutex_);
    accepted_.push_back(std::move(session));
    arrived = listen_options_.arrived;
  }
  if (arrived) arrived();
  progress_->notify();
}

/// One that says nothing only looked whether a task is here (a Kubernetes probe does so every few
/// seconds): it must not use up the lines for those that were refused.
void StreamTransport::log_refusal(const Handshake& handshake) {
  const Status status = handshake.status();
  const bool probed = !handshake.received_any_bytes() && status.code() == ErrorCode::kUnavailable;
  const auto count = (probed ? probes_ : refusals_).admit();
  if (!count.has_value()) return;
  const std::string text =
      str_cat("[wire] refused ", handshake.address().to_string(), ": ", status.message(), *count);
  if (probed) {
    STRATA_LOG(kInfo) << text;
  } else {
    STRATA_LOG(kWarning) << text;
  }
}

void StreamTransport::expire_handshakes() {
  if (pending_count_.load(std::memory_order_relaxed) == 0) return;
  std::vector<std::shared_ptr<Handshake>> late;
  {
    const MutexLock lock(mutex_);
    for (const PendingHandshake& each : pending_handshakes_)
      if (each.handshake->deadline().passed()) late.push_back(each.handshake);
  }
  for (const auto& handshake : late) {
    handshake->abort({ErrorCode::kDeadlineExceeded,
                      str_cat("it did not complete the handshake within ", kHandshakeLimit.count(),
                              " s: ", handshake->stage())});
  }
}

std::shared_ptr<Session> StreamTransport::make_session(Handshake& handshake, uint64_t key,
                                                       const std::string& own_task) {
  SessionOptions options = {.own_task = own_task,
                            .eager_limit = options_.eager_limit,
                            .peer_eager_limit = handshake.peer().eager_limit,
                            .receive_window = options_.eager_budget,
                            .send_window = handshake.peer().eager_budget};
  const MutexLock lock(mutex_);
  if (options_.shuffle_seed) options.shuffle_seed = *options_.shuffle_seed + sessions_made_++;
  auto session = std::make_shared<Session>(handshake.peer().hello, handshake.address(),
                                           handshake.take_stream(), options, progress_);
  std::erase_if(sessions_, [](const auto& each) { return each.expired(); });
  sessions_.push_back(session);
  session->start(key, handshake.hung_up());
  return session;
}

std::shared_ptr<Connection> StreamTransport::try_accept() {
  const MutexLock lock(mutex_);
  STRATA_CHECK(listening_, kFailedPrecondition,
               "[wire] accept: this transport does not listen; call listen first");
  if (accepted_.empty()) return nullptr;
  std::shared_ptr<Session> session = std::move(accepted_.front());
  accepted_.pop_front();
  return session;
}

std::shared_ptr<Connection> StreamTransport::accept(Deadline deadline, std::stop_token stop) {
  std::shared_ptr<Connection> session;
  const auto take = [&] { return (session = try_accept()) != nullptr; };
  // In pieces: who knocks meanwhile must be looked after.
  while (!take()) {
    expire_handshakes();
    const Deadline next = Deadline::sooner(deadline, Deadline::after(std::chrono::seconds(1)));
    if (progress_->wait_until(take, next, stop)) break;
    STRATA_CHECK(!stop.stop_requested(), kCancelled, "[wire] accept: stopped waiting for a peer");
    STRATA_CHECK(!deadline.passed(), kDeadlineExceeded,
                 "[wire] accept: the deadline passed before a peer came in");
  }
  return session;
}

std::shared_ptr<Connection> StreamTransport::connect(const Address& address, const Hello& hello,
                                                     Deadline deadline,
                                                     const ConnectOptions& options,
                                                     std::stop_token stop) {
  const HelloMessage own = {
      .hello = hello, .eager_limit = options_.eager_limit, .eager_budget = options_.eager_budget};
  encode_hello(own);  // throws where it cannot be said
  const std::string whom =
      str_cat(options.peer, options.peer.empty() ? "" : " at ", address.to_string());
  Handshake::PeerValidator validator;
  if (!options.peer.empty()) {
    validator = [wanted = options.peer](const Hello& peer) {
      if (peer.task == wanted) return Status();
      return Status(ErrorCode::kUnauthenticated,
                    str_cat(peer.task, " answered; expected ", wanted));
    };
  }
  Status last(ErrorCode::kUnavailable, "nothing was tried");
  std::string last_error = "it does not answer";
  strata::detail::WaitNotice notice(
      [&] { return str_cat("[wire] connect: waits for ", whom, ": ", last_error); },
      Deadline::Clock::now(), deadline.time());
  const auto wait_until = [&](const std::function<bool()>& done, Deadline limit) {
    while (true) {
      const Deadline until = Deadline::sooner(limit, Deadline::at(notice.next()));
      const bool over = progress_->wait_until(done, until, stop);
      notice.look(Deadline::Clock::now());
      if (over || stop.stop_requested() || limit.passed()) return over;
    }
  };
  std::chrono::milliseconds pause(2);
  while (true) {
    try {
      // One that gets no answer is tried anew: the name may lead elsewhere by then.
      const Deadline limit = Deadline::sooner(deadline, Deadline::after(kHandshakeLimit));
      std::unique_ptr<Stream> stream = dial(address, limit, stop);
      Stream& watched = *stream;
      const uint64_t key = progress_->new_key();
      const auto handshake = std::make_shared<Handshake>(
          true, std::move(stream), address, own, validator, limit, [this] { progress_->notify(); },
          options_.job_secret);
      watched.watch(key);
      progress_->set(key, handshake);
      const bool settled = wait_until([&] { return handshake->finished(); }, limit);
      if (settled && handshake->status().ok()) return make_session(*handshake, key, hello.task);
      if (settled) {
        last = handshake->status();
      } else {
        last = Status(ErrorCode::kUnavailable, handshake->stage());
        handshake->abort(last);
      }
      progress_->remove(key);
      if (last.code() != ErrorCode::kUnavailable) {
        strata::detail::throw_error(
            last.code() == ErrorCode::kUnauthenticated ||
                    last.code() == ErrorCode::kUnimplemented || last.code() == ErrorCode::kDataLoss
                ? last.code()
                : ErrorCode::kPermissionDenied,
            str_cat("[wire] connect: ", whom, handshake->refused() ? " refused: " : ": ",
                    last.message()));
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      last = Status(error.code(), error.what());
    }
    last_error = last.message();
    const Deadline next = Deadline::sooner(deadline, Deadline::after(pause));
    pause = std::min(2 * pause, std::chrono::milliseconds(200));
    wait_until([] { return false; }, next);
    STRATA_CHECK(!stop.stop_requested(), kCancelled, "[wire] connect: stopped connecting to ",
                 whom);
    STRATA_CHECK(!deadline.passed(), kDeadlineExceeded,
                 "[wire] connect: the deadline passed before ", whom,
                 " answered; the last error: ", last.message());
  }
}

}  // namespace strata::wire
