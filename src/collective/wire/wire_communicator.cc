#include "collective/wire/wire_communicator.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collective/call_failure.h"
#include "collective/call_fingerprint.h"
#include "collective/collective_call.h"
#include "collective/wire/message_executor.h"
#include "core/mutex.h"
#include "strata/core/error.h"

namespace strata::collective {

namespace {

/// Twice what the longest line holds.
size_t receive_window(const LinkModel& links) {
  double most = static_cast<double>(MessageRoute::kLeastReceiveWindow);
  const auto add = [&](const Link& link) {
    const bool limited = link.bytes_per_second > 0;
    most = std::max(most, limited ? 4 * link.latency * link.bytes_per_second : 1e18);
  };
  add(links.in_host);
  add(links.across_hosts);
  for (const Link& link : links.pairs) add(link);
  return static_cast<size_t>(most);
}

}  // namespace

struct WireCommunicator::Impl {
  int rank;
  std::vector<std::shared_ptr<wire::Connection>> peers;
  std::shared_ptr<wire::Transport> transport;
  std::shared_ptr<const Planner> planner;
  Options options;

  Mutex mutex;
  Status failure STRATA_GUARDED_BY(mutex);
  std::map<const Schedule*, std::unique_ptr<ScratchLayout>> layouts STRATA_GUARDED_BY(mutex);

  int num_ranks() const { return static_cast<int>(peers.size()); }

  void run(const CollectiveCall& call, const CallOptions& options);
  const ScratchLayout& layout_of(const Schedule& schedule);
  /// Ends all connections with what happened. @return that.
  Status fail_all(const Status& status, uint64_t fingerprint, const CallOptions& options);
  void fail(const Status& reason);
};

const ScratchLayout& WireCommunicator::Impl::layout_of(const Schedule& schedule) {
  const MutexLock lock(mutex);
  std::unique_ptr<ScratchLayout>& layout = layouts[&schedule];  // the planner keeps its schedules
  if (!layout) layout = std::make_unique<ScratchLayout>(schedule, rank);
  return *layout;
}

void WireCommunicator::Impl::run(const CollectiveCall& call, const CallOptions& options) {
  {
    const MutexLock lock(mutex);
    STRATA_CHECK(failure.ok(), kFailedPrecondition, "[collective] ",
                 collective_name(call.collective),
                 ": an earlier call of this communicator failed (", failure.message(),
                 "); it makes no more, and its owner makes another");
  }
  if (this->options.doing) {
    std::string what(collective_name(call.collective));
    if (!options.name.empty()) what.append(" ").append(options.name);
    this->options.doing(what);
  }
  // Without elements there is nothing to send, yet a rank that disagrees must learn of it.
  const bool nothing = call.elements == 0;
  const Choice choice =
      planner->choose({.collective = nothing ? Collective::kBarrier : call.collective,
                       .elements = call.elements,
                       .element_bytes = call.element_bytes,
                       .partial_bytes = call.reduction != nullptr ? call.reduction->partial_bytes()
                                                                  : call.element_bytes,
                       .root = call.root});
  const uint64_t fingerprint = fingerprint_of(call, choice.schedule->name, options.name).pack();
  const MessageBuffers buffers{.result = call.result,
                               .result_begin = call.result_begin,
                               .values = {call.values.begin(), call.values.end()},
                               .elements = call.elements,
                               .element_bytes = call.element_bytes,
                               .reduction = call.reduction};
  Status failed;
  const MessageRoute route{
      .transport = transport.get(),
      .peers = &peers,
      .tag = {.channel = this->options.channel, .id = options.id, .fingerprint = fingerprint},
      .deadline = wire::Deadline::after(options.timeout.value_or(planner->options().timeout)),
      .stop = options.stop,
      .receive_window = receive_window(planner->links()),
      .on_failure = [&](const Status& status) { failed = fail_all(status, fingerprint, options); }};
  static_cast<void>(
      run_messages(*choice.schedule, layout_of(*choice.schedule), rank, buffers, route));
  failed.throw_if_error();
}

Status WireCommunicator::Impl::fail_all(const Status& status, uint64_t fingerprint,
                                        const CallOptions& options) {
  const Status described =
      failed_call(Status(status.code(), with_calls_described(status.message())),
                  describe_call(fingerprint), options, rank, num_ranks());
  const Status explained =
      this->options.root_cause ? this->options.root_cause(described) : described;
  fail(explained);
  return explained;
}

void WireCommunicator::Impl::fail(const Status& reason) {
  {
    const MutexLock lock(mutex);
    if (failure.ok()) failure = reason;
  }
  // The others may be waiting for this rank, which will not go on.
  for (const auto& peer : peers) {
    if (peer) peer->fail(reason);
  }
}

WireCommunicator::WireCommunicator(int rank, std::vector<std::shared_ptr<wire::Connection>> peers,
                                   std::shared_ptr<wire::Transport> transport,
                                   std::shared_ptr<const Planner> planner, const Options& options)
    : Communicator(rank, planner->placement()), impl_(std::make_unique<Impl>()) {
  const int ranks = planner->placement().num_ranks();
  STRATA_CHECK(static_cast<int>(peers.size()) == ranks, kInvalidArgument,
               "[collective] WireCommunicator: got ", peers.size(), " peers for ", ranks,
               " ranks; expected one a rank, null for this one");
  for (int i = 0; i < ranks; ++i) {
    STRATA_CHECK((peers[static_cast<size_t>(i)] == nullptr) == (i == rank), kInvalidArgument,
                 "[collective] WireCommunicator: peer ", i, " of rank ", rank,
                 peers[static_cast<size_t>(i)] ? " is connected to itself" : " is not connected");
  }
  impl_->rank = rank;
  impl_->peers = std::move(peers);
  impl_->transport = std::move(transport);
  impl_->planner = std::move(planner);
  impl_->options = options;
}

WireCommunicator::~WireCommunicator() = default;

const Planner& WireCommunicator::planner() const { return *impl_->planner; }

std::string WireCommunicator::describe() const {
  return str_cat("wire, rank ", rank(), " of ", num_ranks());
}

void WireCommunicator::do_call(const CollectiveCall& call, const CallOptions& options) {
  impl_->run(call, options);
}

void WireCommunicator::do_fail(const Status& reason) { impl_->fail(reason); }

Status WireCommunicator::do_status() {
  {
    const MutexLock lock(impl_->mutex);
    if (!impl_->failure.ok()) return impl_->failure;
  }
  static_cast<void>(impl_->transport->progress());
  for (const auto& peer : impl_->peers) {
    if (peer == nullptr) continue;
    if (Status status = peer->status(); !status.ok()) return status;
  }
  return {};
}

}  // namespace strata::collective
