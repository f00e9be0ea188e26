#include "cluster/data_connections.h"

#include <algorithm>
#include <utility>

#include "core/wait_notice.h"
#include "strata/core/log.h"

namespace strata::cluster {

void DataConnections::accept(const std::string& purpose,
                             std::shared_ptr<wire::Connection> connection) {
  const Key key = {TaskId::parse(connection->peer().task), purpose, connection->peer().generation};
  {
    const MutexLock lock(mutex_);
    if (has_room_for(key)) connections_[key] = std::exchange(connection, nullptr);
  }
  if (connection == nullptr) return transport_.wake();
  const Status why(ErrorCode::kResourceExhausted,
                   str_cat("[cluster] connect: ", std::get<TaskId>(key).to_string(), " has ",
                           kMostPerPeer, " data connections open; expected no more"));
  connection->fail(why);
  if (const auto count = refusals_.admit()) STRATA_LOG(kWarning) << why.message() << *count;
}

// Keeps closed ones while it can: `broken` tells by them whom this task has lost.
bool DataConnections::has_room_for(const Key& key) {
  if (connections_.contains(key)) return true;
  const auto same_peer = [&](const auto& each) {
    return std::get<TaskId>(each.first) == std::get<TaskId>(key);
  };
  const auto full = [&]() STRATA_REQUIRES(mutex_) {
    return std::ranges::count_if(connections_, same_peer) >= static_cast<ptrdiff_t>(kMostPerPeer);
  };
  if (!full()) return true;
  std::erase_if(connections_,
                [&](const auto& each) { return same_peer(each) && !each.second->status().ok(); });
  return !full();
}

std::shared_ptr<wire::Connection> DataConnections::find(const Key& key) const {
  const MutexLock lock(mutex_);
  const auto found = connections_.find(key);
  return found == connections_.end() ? nullptr : found->second;
}

std::shared_ptr<wire::Connection> DataConnections::await(const Peer& peer,
                                                         const std::string& purpose,
                                                         wire::Deadline deadline,
                                                         const std::stop_token& stop) {
  const Key key = {peer.task, purpose, peer.generation};
  std::shared_ptr<wire::Connection> connection;
  strata::detail::WaitNotice notice(
      [&] {
        return str_cat("[cluster] connect: waits for ", peer.task.to_string(), " at ", peer.address,
                       " to connect for \"", purpose, "\"; does it make the same call?");
      },
      Clock::system().now(), deadline.time());
  while (!transport_.wait_until([&] { return (connection = find(key)) != nullptr; },
                                wire::Deadline::sooner(deadline, wire::Deadline::at(notice.next())),
                                stop) &&
         !deadline.passed() && !stop.stop_requested()) {
    notice.look(Clock::system().now());
  }
  STRATA_CHECK(connection != nullptr || stop.stop_requested(), kDeadlineExceeded,
               "[cluster] connect: ", peer.task.to_string(), " at ", peer.address,
               " did not connect for \"", purpose, "\" in time; does it make the same call?");
  return connection;
}

std::shared_ptr<wire::Connection> DataConnections::dial(const Peer& peer,
                                                        const std::string& purpose,
                                                        wire::Hello hello, wire::Deadline deadline,
                                                        const std::stop_token& stop) {
  const Key key = {peer.task, purpose, peer.generation};
  if (auto known = find(key)) return known;
  hello.generation = peer.generation;
  auto connection = transport_.connect(wire::Address::parse(peer.address), hello, deadline,
                                       {.peer = peer.task.to_string()}, stop);
  const MutexLock lock(mutex_);
  connections_[key] = connection;
  return connection;
}

std::map<DataConnections::Key, std::shared_ptr<wire::Connection>> DataConnections::take(
    uint64_t up_to_generation) {
  std::map<Key, std::shared_ptr<wire::Connection>> taken;
  const MutexLock lock(mutex_);
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto current = it++;
    if (std::get<uint64_t>(current->first) <= up_to_generation) {
      taken.insert(connections_.extract(current));
    }
  }
  return taken;
}

std::vector<TaskId> DataConnections::broken() const {
  std::vector<TaskId> tasks;
  const MutexLock lock(mutex_);
  for (const auto& [key, connection] : connections_) {
    const TaskId& task = std::get<TaskId>(key);
    if (!connection->status().ok() && std::ranges::count(tasks, task) == 0) tasks.push_back(task);
  }
  return tasks;
}

void DataConnections::fail(const Status& status, uint64_t generation) {
  for (const auto& entry : take(generation)) entry.second->fail(status);
}

void DataConnections::close(wire::Deadline deadline) {
  for (const auto& entry : take(UINT64_MAX)) entry.second->close(deadline);
}

}  // namespace strata::cluster
