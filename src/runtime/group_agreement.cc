#include "runtime/group_agreement.h"
#include "runtime/replica_group.h"

#include <exception>

namespace strata::detail {
namespace {

/// "" where all went well, else the code and the message.
std::string write(const Status& status) {
  if (status.ok()) return "";
  return str_cat(static_cast<int>(status.code()), ' ', status.message());
}

[[noreturn]] void throw_error_of(const std::string& text, int rank) {
  const size_t space = text.find(' ');
  throw Error(static_cast<ErrorCode>(std::stoi(text.substr(0, space))),
              str_cat(text.substr(space + 1), " (in worker ", rank, ")"));
}

}  // namespace

bool is_chief(const ReplicaGroup& group) { return group.workers().index == 0; }

std::vector<std::string> all_gather_strings(const ReplicaGroup& group, const std::string& what,
                                            const std::string& local) {
  if (group.communicator() == nullptr) return {local};
  group.mend();
  return group.communicator()->all_gather_bytes(local, {.name = what});
}

void run_on_all(const ReplicaGroup& group, const std::string& what,
                const std::function<void()>& body) {
  if (group.communicator() == nullptr) return body();
  Status local;
  try {
    body();
  } catch (...) {
    local = Status::from_current_exception();
  }
  std::vector<std::string> all;
  try {
    all = all_gather_strings(group, what, write(local));
  } catch (...) {
    local.throw_if_error();  // it may be why the others cannot be reached
    throw;
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) throw_error_of(all[rank], static_cast<int>(rank));
  }
}

void run_on_chief(const ReplicaGroup& group, const std::string& what,
                  const std::function<void()>& body) {
  run_on_all(group, what, [&] {
    if (is_chief(group)) body();
  });
}

std::string broadcast_from_chief(const ReplicaGroup& group, const std::string& what,
                                 const std::function<std::string()>& body) {
  if (group.communicator() == nullptr) return body();  // there may be a chief, but it is not needed
  std::string answer;
  run_on_chief(group, what, [&] { answer = body(); });
  return all_gather_strings(group, what, answer)[0];
}

}  // namespace strata::detail
