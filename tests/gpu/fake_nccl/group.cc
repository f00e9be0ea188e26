#include "gpu/fake_nccl/group.h"

#include <algorithm>

#include "gpu/fake_nccl/registry.h"

namespace strata::test::fake_nccl {

Group& Group::of_thread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::end() {
  if (depth_ == 0) {
    set_last_error("ncclGroupEnd: no group has been started");
    return ncclInvalidUsage;
  }
  if (--depth_ > 0) return error_;
  if (error_ == ncclSuccess && !operations_.empty() && (!made_.empty() || !left_out_.empty())) {
    set_last_error("a group has operations, and makes communicators");
    error_ = ncclInvalidUsage;
  }
  ncclResult_t result = std::exchange(error_, ncclSuccess);
  if (result != ncclSuccess) {
    abort_made();
  } else if (!operations_.empty()) {
    result = enqueue();
  } else {
    result = wait_for_made();
    const ncclResult_t left_out = wait_for_left_out();
    if (result == ncclSuccess) result = left_out;
  }
  operations_.clear();
  made_.clear();
  left_out_.clear();
  return result;
}

void Group::add(const std::shared_ptr<Communicator>& communicator, const Operation& operation) {
  const auto at = std::find_if(operations_.begin(), operations_.end(),
                               [&](const auto& each) { return each.first == communicator; });
  if (at == operations_.end()) {
    operations_.emplace_back(communicator, std::vector<Operation>{operation});
  } else {
    at->second.push_back(operation);
  }
}

void Group::add_made(std::shared_ptr<Communicator> communicator, ncclComm_t* where) {
  made_.push_back({std::move(communicator), where});
}

void Group::add_left_out(std::shared_ptr<Communicator> parent, std::future<ncclResult_t> end) {
  left_out_.emplace_back(std::move(parent), std::move(end));
}

ncclResult_t Group::fail(ncclResult_t error) {
  if (depth_ > 0 && error_ == ncclSuccess) error_ = error;
  return error;
}

ncclResult_t Group::enqueue() {
  ncclResult_t result = ncclSuccess;
  for (auto& [communicator, operations] : operations_) {
    communicator->enqueue(std::move(operations));
    if (!communicator->blocking()) result = ncclInProgress;
  }
  return result;
}

ncclResult_t Group::wait_for_made() {
  ncclResult_t result = ncclSuccess;
  for (const Made& each : made_) {
    if (!each.communicator->blocking()) {
      if (result == ncclSuccess) result = ncclInProgress;
      continue;
    }
    const ncclResult_t code = each.communicator->wait_connected();
    if (code == ncclSuccess) continue;
    set_last_error(each.communicator->error_text());
    remove_communicator(*each.where);
    *each.where = nullptr;
    if (result == ncclSuccess || result == ncclInProgress) result = code;
  }
  return result;
}

ncclResult_t Group::wait_for_left_out() {
  ncclResult_t result = ncclSuccess;
  for (auto& [parent, end] : left_out_) {
    const ncclResult_t code = parent->blocking() ? end.get() : ncclInProgress;
    if (result == ncclSuccess || result == ncclInProgress)
      result = code == ncclSuccess ? result : code;
    if (code != ncclSuccess && code != ncclInProgress) set_last_error(parent->error_text());
  }
  return result;
}

// The others of a group that has failed would wait for ranks that never come.
void Group::abort_made() {
  for (const Made& each : made_) {
    remove_communicator(*each.where);
    *each.where = nullptr;
    each.communicator->abort();
  }
}

}  // namespace strata::test::fake_nccl
