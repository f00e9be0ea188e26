#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/replica_group.h"

/// What the processes of a group decide together. Every process makes the same calls in the same
/// order, outside `run`. Where there is one process they cost nothing.
namespace strata::detail {

/// True in the process that writes what is written once.
bool is_chief(const ReplicaGroup& group);

/// Calls `body` and returns when every process has; throws the same error in all of them if it
/// threw in any: that of the first such worker, which is named. `body` makes no collective calls.
/// @param what  For messages; the same in all processes.
void run_on_all(const ReplicaGroup& group, const std::string& what,
                const std::function<void()>& body);

/// `body` is called by the chief alone.
void run_on_chief(const ReplicaGroup& group, const std::string& what,
                  const std::function<void()>& body);

/// What `body` gives in the chief, where alone it is called.
std::string broadcast_from_chief(const ReplicaGroup& group, const std::string& what,
                                 const std::function<std::string()>& body);

/// Every process's text, by rank.
std::vector<std::string> all_gather_strings(const ReplicaGroup& group, const std::string& what,
                                            const std::string& local);

}  // namespace strata::detail
