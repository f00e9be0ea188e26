// A step with collectives: the buckets of gradients are added one after the other, beside backward.
#include "simulate/all_reduce_step.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "collective/pack_bytes.h"
#include "collective/planner/planner.h"
#include "core/letter_case.h"
#include "simulate/event_queue.h"
#include "simulate/fabric.h"
#include "simulate/lockstep.h"
#include "simulate/schedule_run.h"
#include "strata/core/error.h"

namespace strata::simulate {
namespace {

using collective::Schedule;

constexpr int64_t kElementBytes = 4;
constexpr int64_t kLeastPartBytes = 512;  // a segment's message below this is all overhead
constexpr int kMostSegments = 16;
constexpr int kTableWorkers = 64;

/// Algorithms whose ranks can be one, by their names in lower case; AUTO chooses among them.
std::vector<std::string> grouped_algorithms(const Scenario& scenario) {
  const std::string name = strata::detail::lower_case(scenario.implementation);
  if (name != "auto") return {name};
  std::vector<std::string> names = {"direct", "halving_doubling", "recursive_doubling"};
  if (scenario.order == collective::Order::kAny) names.push_back("ring");
  return names;
}

collective::Placement placement_of(const Scenario& scenario) {
  return collective::Placement::blocks(
      std::vector<int>(static_cast<size_t>(scenario.workers()), scenario.replicas_per_worker),
      scenario.workers_per_host);
}

double seconds_alone(const Scenario& scenario, std::shared_ptr<const Schedule> schedule,
                     int64_t elements) {
  EventQueue events;
  Fabric fabric =
      Fabric::of_one_rank(events, scenario.workers(), scenario.workers_per_host, scenario.links);
  ScheduleRun run(fabric, std::move(schedule), {.elements = elements}, [](int) {});
  run.begin(0);
  events.run();
  STRATA_DCHECK(run.finished_ranks() == 1);
  return run.finished_at();
}

/// The fastest of the algorithms whose ranks can be one, and of numbers of segments; a named one is
/// whole, as it is where every rank is simulated.
void choose_for_one_rank(const Scenario& scenario, Bucket& bucket) {
  const bool named = strata::detail::lower_case(scenario.implementation) != "auto";
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& name : grouped_algorithms(scenario)) {
    const std::optional<Schedule> whole =
        steps_of_one_rank(name, scenario.workers(), scenario.replicas_per_worker);
    if (!whole) continue;
    for (int segments = 1; segments <= (named ? 1 : kMostSegments); segments *= 2) {
      if (segments > 1 &&
          bucket.elements * kElementBytes < kLeastPartBytes * segments * whole->num_chunks()) {
        break;
      }
      auto schedule = std::make_shared<const Schedule>(segmented(*whole, segments));
      const double seconds = seconds_alone(scenario, schedule, bucket.elements);
      if (seconds >= least) break;
      least = seconds;
      bucket.schedule = std::move(schedule);
      bucket.algorithm = segments == 1 ? name : str_cat(name, "/", segments);
    }
  }
}

/// One step on a fabric.
class AllReduceStep {
 public:
  AllReduceStep(const Scenario& scenario, const std::vector<Bucket>& buckets,
                const std::vector<double>& factors, Fabric& fabric)
      : scenario_(scenario),
        buckets_(buckets),
        factors_(factors),
        fabric_(fabric),
        ranks_(factors.size()) {}

  StepReport run() {
    EventQueue& events = fabric_.events();
    for (const Bucket& bucket : buckets_) {
      const size_t index = runs_.size();
      report_.buckets.push_back({.bytes = bucket.elements * kElementBytes,
                                 .variables = bucket.variables,
                                 .algorithm = bucket.algorithm});
      if (!bucket.schedule) continue;
      runs_.push_back(std::make_unique<ScheduleRun>(
          fabric_, bucket.schedule, collective::Payload{.elements = bucket.elements},
          [this, index](int rank) { added(rank, index); }));
    }
    for (size_t rank = 0; rank < factors_.size(); ++rank) compute(static_cast<int>(rank));
    events.run();
    return report();
  }

 private:
  struct Rank {
    size_t next = 0;   // bucket that it adds, or is to add
    size_t ready = 0;  // buckets whose gradients are there
    bool busy = false;
  };

  /// When each bucket's gradients are ready, by the table.
  void compute(int rank) {
    const double factor = factors_[static_cast<size_t>(rank)];
    const std::vector<Layer>& layers = scenario_.network.layers;
    double time = factor * scenario_.network.forward_seconds();
    std::vector<double> after(layers.size());
    for (size_t layer = layers.size(); layer-- > 0;) {
      time += factor * layers[layer].backward_seconds;
      after[layer] = time;
    }
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const double ready = scenario_.overlap ? after[buckets_[i].ready_after] : time;
      report_.buckets[i].ready = std::max(report_.buckets[i].ready, ready);
      report_.buckets[i].end = std::max(report_.buckets[i].end, ready);
      if (runs_.empty()) continue;
      fabric_.events().at(ready, [this, rank] {
        ++ranks_[static_cast<size_t>(rank)].ready;
        begin_next(rank);
      });
    }
  }

  /// The next bucket waits for its gradients, and for the one before it.
  void begin_next(int index) {
    Rank& rank = ranks_[static_cast<size_t>(index)];
    if (rank.busy || rank.next == rank.ready) return;
    rank.busy = true;
    runs_[rank.next]->begin(index);
  }

  void added(int index, size_t bucket) {
    report_.buckets[bucket].end = std::max(report_.buckets[bucket].end, fabric_.events().now());
    Rank& rank = ranks_[static_cast<size_t>(index)];
    rank.busy = false;
    ++rank.next;
    begin_next(index);
  }

  StepReport report() {
    const double factor = *std::max_element(factors_.begin(), factors_.end());
    report_.compute_seconds = scenario_.network.step_seconds();
    report_.straggler_seconds = (factor - 1) * report_.compute_seconds;
    report_.step_seconds = factor * report_.compute_seconds;
    for (const BucketTimes& bucket : report_.buckets) {
      report_.step_seconds = std::max(report_.step_seconds, bucket.end);
    }
    report_.push_seconds = report_.step_seconds - factor * report_.compute_seconds;
    // Grouped, a host of one worker each.
    report_.bytes_between_hosts =
        fabric_.bytes_between_hosts() * scenario_.workers() / static_cast<double>(factors_.size());
    report_.events = fabric_.events().events();
    return std::move(report_);
  }

  const Scenario& scenario_;
  const std::vector<Bucket>& buckets_;
  const std::vector<double>& factors_;
  Fabric& fabric_;
  std::vector<std::unique_ptr<ScheduleRun>> runs_;
  std::vector<Rank> ranks_;
  StepReport report_;
};

}  // namespace

bool can_group(const Scenario& scenario) {
  if (!scenario.links.pairs.empty()) return false;
  if (scenario.strategy == Strategy::kParameterServer) return scenario.switch_queue_seconds == 0;
  if (scenario.workers_per_host != 1) return false;
  const std::vector<std::string> names = grouped_algorithms(scenario);
  return std::ranges::any_of(names, [&](const std::string& name) {
    return steps_of_one_rank(name, scenario.workers(), scenario.replicas_per_worker).has_value();
  });
}

std::vector<Bucket> plan_buckets(const Scenario& scenario, bool grouped) {
  const std::vector<Layer>& layers = scenario.network.layers;
  std::vector<int64_t> bytes;
  std::vector<int64_t> elements;
  std::vector<size_t> layer_of;
  int64_t total = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (const ps::VariableSpec& variable : layers[layer].variables) {
      elements.push_back(num_elements(variable));
      bytes.push_back(elements.back() * kElementBytes);
      layer_of.push_back(layer);
      total += bytes.back();
    }
  }
  int64_t pack_bytes = scenario.bytes_per_pack;
  if (pack_bytes == 0 && scenario.overlap) pack_bytes = collective::overlapped_pack_bytes(total);
  std::vector<Bucket> buckets;
  for (const std::vector<size_t>& pack : collective::packs_of(bytes, pack_bytes)) {
    Bucket bucket{.variables = static_cast<int>(pack.size()), .ready_after = layers.size()};
    for (const size_t i : pack) {
      bucket.elements += elements[i];
      bucket.ready_after = std::min(bucket.ready_after, layer_of[i]);
    }
    buckets.push_back(std::move(bucket));
  }
  if (scenario.workers() == 1) return buckets;
  if (grouped) {
    for (Bucket& bucket : buckets) choose_for_one_rank(scenario, bucket);
    return buckets;
  }
  collective::CommunicationOptions options{.order = scenario.order};
  options.implementation = scenario.implementation;
  const collective::Planner planner(placement_of(scenario), scenario.links, options);
  const bool named = strata::detail::lower_case(scenario.implementation) != "auto";
  if (named) {
    // As it is; the planner would cut it into segments for each size.
    const collective::Algorithms standard = collective::Algorithms::standard();
    const collective::Algorithm* algorithm =
        standard.find(collective::Collective::kAllReduce, scenario.implementation);
    STRATA_CHECK(algorithm != nullptr, kInvalidArgument, "[simulate] implementation: got ",
                 scenario.implementation, "; expected an algorithm of all-reduces, or AUTO");
    const auto schedule = std::make_shared<const Schedule>(
        algorithm->make({.placement = placement_of(scenario), .order = scenario.order}));
    for (Bucket& bucket : buckets) {
      bucket.schedule = schedule;
      bucket.algorithm = algorithm->name;
    }
    return buckets;
  }
  // A table for all sizes takes seconds for 64 ranks, and pays in a job alone.
  const bool by_table = scenario.workers() <= kTableWorkers;
  for (Bucket& bucket : buckets) {
    const collective::Wanted wanted{.elements = bucket.elements};
    const collective::Choice choice =
        by_table ? planner.choose(wanted) : planner.choose_exhaustively(wanted);
    bucket.schedule = choice.schedule;
    bucket.algorithm =
        choice.segments == 1 ? choice.algorithm : str_cat(choice.algorithm, "/", choice.segments);
  }
  return buckets;
}

StepReport all_reduce_step(const Scenario& scenario, const std::vector<Bucket>& buckets,
                           const std::vector<double>& factors, bool grouped) {
  EventQueue events;
  Fabric fabric = grouped ? Fabric::of_one_rank(events, scenario.workers(),
                                                scenario.workers_per_host, scenario.links)
                          : Fabric(events, placement_of(scenario), scenario.links);
  return AllReduceStep(scenario, buckets, factors, fabric).run();
}

}  // namespace strata::simulate
