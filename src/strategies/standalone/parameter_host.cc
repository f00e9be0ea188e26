#include "strategies/standalone/parameter_host.h"

#include <string>
#include <utility>
#include <vector>

#include "strata/core/error.h"

namespace strata::standalone {
namespace {

constexpr int64_t kMostTasks = 1024;
constexpr uint64_t kLeastMemory = uint64_t{1} << 20;

ps::ParameterServerOptions options_of(const GroupSpec& group, uint64_t memory) {
  ps::ParameterServerOptions options;
  options.server.listen_address = group.listen_address;
  options.server.job = group.job;
  options.server.tls = group.tls;
  options.server.job_secret = group.job_secret;
  options.limits.memory = memory;
  return options;
}

uint64_t half_of_what_is_left(BudgetShare& budget) {
  const uint64_t memory = budget.left() / 2;
  STRATA_CHECK(memory >= kLeastMemory, kResourceExhausted,
               "[standalone] parameters: the server has ", budget.left(), " bytes left; expected ",
               2 * kLeastMemory, " at least: close a session, or start it with more --memory");
  budget.take(memory);
  return memory;
}

}  // namespace

cluster::ClusterSpec cluster_of(const ParametersSpec& parameters) {
  const auto servers = static_cast<int64_t>(parameters.addresses.size());
  const bool known = servers >= 1 && servers <= kMostTasks && parameters.workers >= 1 &&
                     parameters.workers <= kMostTasks && parameters.staleness >= 0 &&
                     parameters.backup_workers >= 0 &&
                     parameters.backup_workers < parameters.workers &&
                     parameters.consistency >= ps::Consistency::kAsynchronous &&
                     parameters.consistency <= ps::Consistency::kSynchronous &&
                     parameters.precision >= ps::PushPrecision::kFull &&
                     parameters.precision <= ps::PushPrecision::kBFloat16;
  STRATA_CHECK(known, kInvalidArgument, "[standalone] join: got ", servers,
               " parameter servers for ", parameters.workers, " workers, staleness ",
               parameters.staleness, " and ", parameters.backup_workers,
               " backup workers; expected what ParameterServerStrategyOptions says");
  return {{"worker", std::vector<std::string>(static_cast<size_t>(parameters.workers), ":0")},
          {"ps", parameters.addresses}};
}

ParameterHost::ParameterHost(const GroupSpec& group, Budget& budget)
    : budget_(budget),
      server_(cluster_of(*group.parameters), {"ps", group.rank},
              options_of(group, half_of_what_is_left(budget_))) {}

}  // namespace strata::standalone
