#include "predicted_step/member.h"

#include <fstream>
#include <sstream>

#include "collective/planner/measure_links.h"
#include "simulate/network_table.h"
#include "strata/core/error.h"

namespace strata::bench {
namespace {

constexpr double kStepSeconds = 1.0;        // of a network that is built in
constexpr double kPayload = 1448.0 / 1514;  // of a frame: headers of Ethernet, IP and TCP

simulate::NetworkTable network_of(const std::string& name) {
  if (!name.ends_with(".json")) return simulate::built_in_network(name, kStepSeconds, 64);
  const std::ifstream file(name);
  STRATA_CHECK(file.good(), kNotFound, "[predicted_step] got ", name, ", which cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return simulate::NetworkTable::from_json(text.str());
}

cluster::ClusterSpec spec_of(const PredictedCase& predicted) {
  if (predicted.servers.empty()) return cluster::ClusterSpec{{"worker", predicted.workers}};
  return cluster::ClusterSpec{{"worker", predicted.workers}, {"ps", predicted.servers}};
}

}  // namespace

wire::Deadline predicted_step_limit() { return wire::Deadline::after(std::chrono::minutes(2)); }

double PredictedCase::bytes_per_second() const { return megabits * 1e6 / 8 * kPayload; }

LinkShape PredictedCase::line() const { return {.bits_per_second = megabits * 1e6}; }

simulate::Scenario PredictedCase::scenario() const {
  simulate::Scenario scenario;
  scenario.network = network_of(network);
  scenario.replicas = static_cast<int>(workers.size());
  scenario.strategy = strategy;
  scenario.servers = std::max<int>(1, static_cast<int>(servers.size()));
  scenario.detail = simulate::Detail::kFull;
  scenario.switch_queue_seconds = line().queue_seconds();
  return scenario;
}

Member::Member(const PredictedCase& predicted, const cluster::TaskId& task)
    : task_(task), server_(spec_of(predicted), task) {
  if (task.job == "worker") {
    connect_workers(static_cast<int>(predicted.workers.size()), predicted.bytes_per_second());
  }
}

Member::~Member() { server_.shutdown(wire::Deadline::after(std::chrono::seconds(1))); }

void Member::connect_workers(int workers, double bytes_per_second) {
  const auto placement =
      collective::Placement::blocks(std::vector<int>(static_cast<size_t>(workers), 1));
  for (int other = 0; other < workers; ++other) {
    peers_.push_back(other == index()
                         ? nullptr
                         : server_.connect({"worker", other}, "predicted", predicted_step_limit()));
  }
  links_ = collective::measure_links(index(), placement, peers_, server_.transport(),
                                     predicted_step_limit());
  // Beside lines this slow processors do not matter; and simulated ranks have one each.
  links_.ranks_per_processor = 1;
  // The line's rate is known; what is measured in milliseconds, on a busy machine, is less.
  measured_rate_ = links_.across_hosts.bytes_per_second;
  links_.across_hosts.bytes_per_second = bytes_per_second;
  const std::shared_ptr<wire::Transport> transport(std::shared_ptr<void>(), &server_.transport());
  communicator_ = std::make_unique<collective::WireCommunicator>(
      index(), peers_, transport, std::make_shared<collective::Planner>(placement, links_));
}

}  // namespace strata::bench
