#include "strategies/worker_group.h"

#include <algorithm>
#include <string>
#include <vector>

#include "strata/cluster/roles.h"
#include "strata/collective/measure_links.h"
#include "strata/collective/planner.h"
#include "strata/collective/wire_communicator.h"
#include "strata/core/json.h"
#include "strata/core/log.h"
#include "strategies/host_id.h"

namespace strata::detail {
namespace {

/// What a worker tells the others about itself.
struct Card {
  int replicas = 0;
  std::string host;
  Common common;

  std::string write() const {
    Json json = Json::object();
    json.set("replicas", replicas);
    json.set("host", host);
    json.set("seed", std::to_string(common.seed));
    json.set("threads_per_replica", common.threads_per_replica);
    return json.dump();
  }
  static Card read(const std::string& text) {
    const Json json = Json::parse(text);
    return {.replicas = static_cast<int>(json.at("replicas").as_int()),
            .host = json.at("host").as_string(),
            .common = {
                .seed = std::stoull(json.at("seed").as_string()),
                .threads_per_replica = static_cast<int>(json.at("threads_per_replica").as_int())}};
  }
};

std::string key_of(int rank) { return str_cat("strata/worker/", rank); }

collective::Placement placement_of(const std::vector<Card>& cards) {
  std::vector<int> replicas;
  for (const Card& card : cards) replicas.push_back(card.replicas);
  collective::Placement placement = collective::Placement::blocks(replicas);
  for (size_t r = 0; r < cards.size(); ++r) {
    const auto first = std::ranges::find(cards, cards[r].host, &Card::host);
    placement.host_of_rank[r] = static_cast<int>(first - cards.begin());
  }
  return placement;
}

}  // namespace

WorkerGroup join_workers(const cluster::Cluster& cluster, const cluster::ServerOptions& options,
                         const collective::CommunicationOptions& communication, int replicas,
                         const Common& common) {
  const std::vector<cluster::TaskId> workers = cluster::training_tasks(cluster.spec);
  const int rank = cluster::id_in_cluster(cluster.spec, cluster.task);
  const auto num_workers = static_cast<int>(workers.size());
  const auto deadline = wire::Deadline::after(options.start_timeout);

  cluster::ServerOptions own = options;
  if (own.members.empty()) own.members = workers;
  const auto server = std::make_shared<cluster::Server>(cluster.spec, cluster.task, own);

  server->set(key_of(rank),
              Card{.replicas = replicas, .host = host_id(), .common = common}.write());
  std::vector<Card> cards;
  for (int r = 0; r < num_workers; ++r) {
    cards.push_back(Card::read(server->get(key_of(r), deadline)));
  }
  std::vector<std::shared_ptr<wire::Connection>> peers;
  for (int r = 0; r < num_workers; ++r) {
    peers.push_back(r == rank
                        ? nullptr
                        : server->connect(workers[static_cast<size_t>(r)], "collective", deadline));
  }
  const collective::Placement placement = placement_of(cards);
  const collective::LinkModel links =
      collective::measure_links(rank, placement, peers, server->transport(), deadline);
  const auto planner = std::make_shared<collective::Planner>(placement, links, communication);
  STRATA_LOG(kInfo) << "[multi_worker] " << num_workers << " workers, " << placement.num_replicas()
                    << " replicas; " << planner->describe(collective::Collective::kAllReduce);
  return {.server = server,
          .communicator = std::make_shared<collective::WireCommunicator>(
              rank, std::move(peers),
              std::shared_ptr<wire::Transport>(server, &server->transport()), planner),
          .common = cards[0].common};
}

}  // namespace strata::detail
