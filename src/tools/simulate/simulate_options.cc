#include "tools/simulate/simulate_options.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "core/join.h"
#include "simulate/links_file.h"
#include "simulate/published_study.h"
#include "strata/core/error.h"
#include "tools/command_line.h"

namespace strata::tools {
namespace {

using simulate::PlacementRule;
using simulate::Scenario;
using simulate::Strategy;
using simulate::VariableUpdate;

CommandHelp simulate_help() {
  return {
      .usage = "strata simulate --network NAME|FILE --replicas N[,N...] [options] | --study NAME",
      .description =
          R"(Simulates steps of synchronous training as discrete events: strata's own schedules, planner, buckets and
placement of variables on modelled links, for 1 to 10,000 workers. Prints how long a step takes, where the time goes,
and which changes would help. docs/simulate.md says what is modelled and where the numbers come from.)",
      .examples = R"(examples:
  strata simulate --network resnet50 --replicas 1,8,64 --gbit-per-second 10
  strata simulate --network vgg16 --replicas 32 --strategy parameter_server --servers 4 --placement greedy
  strata simulate --network net.json --replicas 16 --links links.json --format json
  strata simulate --network resnet50 --print-network > net.json
  strata simulate --network model.keras --batch 64 --print-network > model.json
  strata simulate --study cscs --svg cscs.svg
)"};
}

std::string read_text(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  STRATA_CHECK(file.good(), kNotFound, "[strata simulate] got ", path,
               ", which cannot be read; expected a file");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double number_of(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  STRATA_CHECK(error == std::errc() && end == text.data() + text.size() && value >= 0,
               kInvalidArgument, "[strata simulate] got ", option, " ", text,
               "; expected a number that is not negative");
  return value;
}

template <typename T>
void choice(CommandLine& line, const std::string& name, const std::string& help,
            std::vector<std::pair<std::string, T>> words, T& to) {
  const auto first = [](const auto& pair) { return pair.first; };
  const std::string shown = join(words, first, "|");
  line.option(name, shown, help,
              [name, words = std::move(words), &to, first](const std::string& got) {
                const auto found = std::ranges::find(words, got, first);
                STRATA_CHECK(found != words.end(), kInvalidArgument, "[strata simulate] got ", name,
                             " ", got, "; expected one of ", join(words, first));
                to = found->second;
              });
}

void number(CommandLine& line, const std::string& name, const std::string& shown,
            const std::string& help, double& to) {
  line.option(name, shown, help,
              [name, &to](const std::string& text) { to = number_of(name, text); });
}

/// Images/s of a replica, and its batch, as TensorFlow's page of benchmarks has them for a P100.
struct KnownRate {
  const char* network;
  double images_per_second;
  int64_t batch;
};
constexpr int64_t kMeasuredBatch = 32;
constexpr KnownRate kP100[] = {
    {"inception3", 142, 64}, {"resnet50", 219, 64}, {"vgg16", 154, 64}, {"alexnet", 2987, 512}};

simulate::NetworkTable network_of(const std::string& name, double images_per_second, int64_t batch,
                                  const MeasureNetwork& measure) {
  const bool is_model = name.ends_with(".keras");
  if (is_model || name.ends_with(".json")) {
    simulate::NetworkTable table = is_model ? measure(name, batch > 0 ? batch : kMeasuredBatch)
                                            : simulate::NetworkTable::from_json(read_text(name));
    if (batch > 0) table.batch = batch;
    if (images_per_second == 0) return table;
    return table.with_step_seconds(static_cast<double>(table.batch) / images_per_second);
  }
  for (const KnownRate& known : kP100) {
    if (name != known.network) continue;
    if (batch == 0) batch = known.batch;
    if (images_per_second == 0) images_per_second = known.images_per_second;
  }
  if (images_per_second == 0)
    images_per_second = 1;  // the next call says that there is no such network
  return simulate::built_in_network(name, static_cast<double>(batch) / images_per_second, batch);
}

}  // namespace

SimulateOptions read_simulate_options(const std::vector<std::string>& words,
                                      const MeasureNetwork& measure) {
  SimulateOptions options;
  Scenario scenario;
  std::string network;
  std::vector<std::string> replicas;
  std::string links;
  double images_per_second = 0;
  double gbit = -1;
  double latency_us = -1;
  double switch_queue_ms = 0;
  int64_t batch = 0;
  int servers = 0;
  int seed = 1;

  CommandLine line("strata simulate", simulate_help());
  line.text("--network", "NAME|FILE",
            "inception3, resnet50, vgg16, alexnet; FILE.json, a table of layers; FILE.keras, a\n"
            "model that is measured here first, on one replica on CPUs",
            network);
  line.list("--replicas", "N,N,...", "how many; a report for each", replicas);
  number(line, "--images-per-second", "X", "of one replica alone (default: a P100's)",
         images_per_second);
  line.number("--batch", "N", "of one replica (default: the network's; of a model 32)", batch, 1);
  line.number("--replicas-per-worker", "N", "GPUs whose gradients are added in a process first",
              scenario.replicas_per_worker, 1);
  line.number("--workers-per-host", "N", "workers that share a line", scenario.workers_per_host, 1);
  choice<Strategy>(
      line, "--strategy", "what adds the gradients (default: all_reduce)",
      {{"all_reduce", Strategy::kAllReduce}, {"parameter_server", Strategy::kParameterServer}},
      scenario.strategy);
  line.text("--all-reduce", "NAME",
            "AUTO (the planner's choice), ring, direct, halving_doubling,\n"
            "recursive_doubling, hierarchical, exchange, tree",
            scenario.implementation);
  choice<collective::Order>(
      line, "--order", "of additions (default: fixed)",
      {{"fixed", collective::Order::kFixed}, {"any", collective::Order::kAny}}, scenario.order);
  line.number("--bytes-per-pack", "N", "size of a bucket (default: as strata chooses)",
              scenario.bytes_per_pack, 0);
  line.yes_or_no("--overlap", "sums beside backward (default: yes)", scenario.overlap);
  line.number("--servers", "N", "parameter servers (default: one a worker)", servers, 1);
  choice<PlacementRule>(line, "--placement", "of variables on servers (default: sharded)",
                        {{"sharded", PlacementRule::kSharded},
                         {"greedy", PlacementRule::kGreedy},
                         {"round_robin", PlacementRule::kRoundRobin}},
                        scenario.placement);
  choice<VariableUpdate>(line, "--variable-update",
                         "when workers read variables (default: parameter_server)",
                         {{"parameter_server", VariableUpdate::kParameterServer},
                          {"distributed_replicated", VariableUpdate::kDistributedReplicated}},
                         scenario.variable_update);
  choice<bool>(line, "--servers-on", "where servers are (default: workers)",
               {{"workers", true}, {"own_hosts", false}}, scenario.servers_on_workers);
  number(line, "--switch-queue-ms", "X",
         "that a packet to a host waits at most in a switch; more are lost (default: lines are "
         "shared fairly)",
         switch_queue_ms);
  line.text("--links", "FILE.json", "measured or written down (docs/simulate.md)", links);
  number(line, "--gbit-per-second", "X", "of a host's line, instead of --links", gbit);
  number(line, "--latency-us", "X", "between hosts, instead of --links", latency_us);
  number(line, "--stragglers", "SIGMA", "lognormal factor of each replica's computing, e.g. 0.05",
         scenario.stragglers);
  number(line, "--overhead", "X", "of a step with several replicas, in steps of one",
         scenario.overhead);
  number(line, "--overhead-per-doubling", "X", "the same for each doubling of replicas",
         scenario.overhead_per_doubling);
  line.number("--steps", "N", "whose mean is reported (default: 1)", scenario.steps, 1);
  line.number("--seed", "N", "of stragglers and wake-ups (default: 1)", seed, 0);
  choice<simulate::Detail>(line, "--detail", "which workers are simulated (default: auto)",
                           {{"auto", simulate::Detail::kAuto},
                            {"grouped", simulate::Detail::kGrouped},
                            {"full", simulate::Detail::kFull}},
                           scenario.detail);
  line.text("--study", "NAME", "published beside simulated: cscs, google, talk", options.study);
  line.flag("--fit", "fits the numbers of study cscs again, and prints them", options.fit);
  line.flag("--print-network", "prints the network's table as JSON", options.print_network);
  choice<bool>(line, "--format", "of the output (default: text)", {{"text", false}, {"json", true}},
               options.json);
  line.text("--svg", "FILE", "also draws efficiencies", options.svg);
  if (!line.read(words)) {
    options.help = line.help();
    return options;
  }
  STRATA_CHECK(line.operands().empty(), kInvalidArgument, "[strata simulate] got ",
               join(line.operands()), "; expected options alone");
  if (!options.study.empty() || options.fit) {
    STRATA_CHECK(network.empty(), kInvalidArgument, "[strata simulate] got --network ", network,
                 " with --study or --fit, which have their own; expected one of them");
    STRATA_CHECK(!options.fit || options.study.empty() || options.study == "cscs", kInvalidArgument,
                 "[strata simulate] got --fit with --study ", options.study,
                 "; expected cscs, to which numbers are fitted");
    if (options.study.empty()) options.study = "cscs";
    simulate::published_study(options.study);
    return options;
  }
  STRATA_CHECK(
      !network.empty(), kInvalidArgument,
      "[strata simulate] got no network; expected --network resnet50 --replicas 8, or --study "
      "cscs");
  STRATA_CHECK(
      links.empty() || (gbit < 0 && latency_us < 0), kInvalidArgument,
      "[strata simulate] got --links with --gbit-per-second or --latency-us; expected one of "
      "them");
  scenario.network = network_of(network, images_per_second, batch, measure);
  if (!links.empty()) scenario.links = simulate::links_from_json(read_text(links));
  if (gbit >= 0) scenario.links.across_hosts.bytes_per_second = gbit * 1e9 / 8;
  if (latency_us >= 0) scenario.links.across_hosts.latency = latency_us * 1e-6;
  scenario.switch_queue_seconds = switch_queue_ms * 1e-3;
  scenario.seed = static_cast<uint64_t>(seed);
  if (replicas.empty()) replicas = {"1"};
  for (const std::string& text : replicas) {
    int count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    STRATA_CHECK(error == std::errc() && end == text.data() + text.size() && count >= 1,
                 kInvalidArgument, "[strata simulate] got --replicas ", text,
                 "; expected numbers from 1 on, as 1,8,64");
    scenario.replicas = count;
    scenario.servers = servers > 0 ? servers : std::max(1, scenario.workers());
    scenario.check();
    options.scenarios.push_back(scenario);
  }
  return options;
}

}  // namespace strata::tools
