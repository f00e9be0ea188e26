#include "runtime/verify_replicas.h"

#include <algorithm>
#include <string>

#include "core/join.h"
#include "runtime/group_agreement.h"
#include "runtime/replica_group.h"
#include "strata/core/json.h"
#include "strata/tensor/fingerprint.h"

namespace strata::detail {
namespace {

/// Of each replica of this process.
std::vector<std::string> hashes_of(const ReplicaGroup& group, const VariableState& variable) {
  std::vector<std::string> hashes;
  for (const at::Tensor& copy : variable.replicas()) {
    hashes.push_back(variable.shares_storage() && !hashes.empty()
                         ? hashes[0]
                         : tensor::fingerprint({copy.detach()}));
  }
  // A plain variable is one tensor for all replicas.
  hashes.resize(static_cast<size_t>(group.num_local_replicas()), hashes[0]);
  return hashes;
}

/// What a process tells the others: names and hashes.
std::string write(const ReplicaGroup& group, const std::vector<Variable>& variables) {
  Json all = Json::array();
  for (const Variable& variable : variables) {
    if (variable.state()->on_read()) continue;
    Json entry = Json::array();
    entry.push_back(variable.name());
    for (std::string& hash : hashes_of(group, *variable.state())) entry.push_back(std::move(hash));
    all.push_back(std::move(entry));
  }
  return all.dump();
}

/// A value of a variable, and who has it.
struct Copies {
  std::string hash;
  std::vector<std::pair<int, std::vector<int>>> replicas = {};  // of a rank

  std::string to_string(bool with_ranks) const {
    const auto text = [&](const auto& each) {
      const auto& [rank, ids] = each;
      return str_cat(ids.size() == 1 ? "replica " : "replicas ", join(ids),
                     with_ranks ? str_cat(" of worker ", rank) : "");
    };
    return str_cat(hash, " on ", join(replicas, text, " and "));
  }
};

std::vector<int> replicas_of(const ReplicaGroup& group, int rank) {
  if (group.communicator()) return group.communicator()->placement().replicas_of(rank);
  std::vector<int> all;
  for (int r = 0; r < group.num_replicas(); ++r) all.push_back(r);
  return all;
}

}  // namespace

void verify_replicas(const ReplicaGroup& group, const std::vector<Variable>& variables) {
  std::vector<Json> workers;
  for (const std::string& text :
       all_gather_strings(group, "verify_replicas", write(group, variables))) {
    workers.push_back(Json::parse(text));
  }
  const size_t count = workers[0].as_array().size();
  const auto name = [&](size_t rank, size_t v) -> const std::string& {
    return workers[rank].as_array()[v].as_array()[0].as_string();
  };
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    bool same = workers[rank].as_array().size() == count;
    for (size_t v = 0; same && v < count; ++v) same = name(rank, v) == name(0, v);
    STRATA_CHECK(same, kInvalidArgument, "[", group.name(),
                 "] verify_replicas: got other variables in worker ", rank,
                 " than in worker 0; expected the same in all, in the same order");
  }
  for (size_t v = 0; v < count; ++v) {
    std::vector<Copies> found;
    for (size_t rank = 0; rank < workers.size(); ++rank) {
      const auto& entry = workers[rank].as_array()[v].as_array();
      const std::vector<int> ids = replicas_of(group, static_cast<int>(rank));
      for (size_t i = 0; i < ids.size(); ++i) {
        const std::string& hash = entry[1 + i].as_string();
        auto copies = std::ranges::find(found, hash, &Copies::hash);
        if (copies == found.end()) copies = found.insert(found.end(), Copies{.hash = hash});
        auto& places = copies->replicas;
        if (places.empty() || places.back().first != static_cast<int>(rank)) {
          places.emplace_back(rank, std::vector<int>());
        }
        places.back().second.push_back(ids[i]);
      }
    }
    if (found.size() == 1) continue;
    const bool with_ranks = group.communicator() != nullptr;
    const size_t more = found.size() - 2;
    strata::detail::throw_error(
        ErrorCode::kDataLoss,
        str_cat(
            "[", group.name(), "] verify_replicas: '", name(0, v),
            "' is not the same everywhere: SHA-256 ", found[0].to_string(with_ranks), ", ",
            found[1].to_string(with_ranks),
            more > 0 ? str_cat(", and ", more, more == 1 ? " other value" : " other values") : "",
            "; something has written to one copy alone, or a machine computes wrongly; go on "
            "from a checkpoint"));
  }
}

}  // namespace strata::detail
