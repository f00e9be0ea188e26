#include "ps/coordinator/coordinator.h"

#include <utility>

#include "ps/coordinator/coordinator_core.h"

namespace strata::ps {

Value detail::RemoteHandle::wait(wire::Deadline deadline) const {
  if (!state_->done()) {
    const auto core = core_.lock();  // null: it has ended
    STRATA_CHECK(core == nullptr || core->wait(*state_, deadline), kDeadlineExceeded,
                 "[ps] RemoteValue: the deadline passed before the function had ended");
  }
  state_->status().throw_if_error();
  return state_->value();
}

Coordinator::Coordinator(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                         const FunctionRegistry& registry, CoordinatorOptions options)
    : core_(std::make_shared<detail::CoordinatorCore>(spec, task, registry, std::move(options))) {
  core_->start();
}

Coordinator::~Coordinator() { core_->stop(); }

RemoteValue<> Coordinator::schedule(std::string_view function, std::vector<Value> arguments,
                                    wire::Deadline deadline) {
  return core_->schedule(function, arguments, deadline);
}

void Coordinator::join(wire::Deadline deadline) { core_->join(deadline); }

bool Coordinator::done() { return core_->done(); }

std::vector<Value> Coordinator::fetch(const std::vector<RemoteValue<>>& values,
                                      wire::Deadline deadline) const {
  std::vector<Value> fetched;
  fetched.reserve(values.size());
  for (const RemoteValue<>& each : values) fetched.push_back(each.fetch(deadline));
  return fetched;
}

PerWorkerValues Coordinator::create_per_worker(std::string_view function,
                                               std::vector<Value> arguments) {
  return core_->create_per_worker(function, arguments);
}

int Coordinator::num_workers() const { return core_->num_workers(); }

int Coordinator::num_ready_workers() const { return core_->num_ready_workers(); }

void Coordinator::wait_for_workers(int count, wire::Deadline deadline) {
  core_->wait_for_workers(count, deadline);
}

CoordinatorCounts Coordinator::counts() const { return core_->counts(); }

void Coordinator::shutdown(wire::Deadline deadline) { core_->shutdown(deadline); }

}  // namespace strata::ps
