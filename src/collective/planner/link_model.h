#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "strata/collective/algorithms.h"
#include "strata/collective/schedule.h"

namespace strata::collective {

/// One direction between two ranks.
struct Link {
  double latency = 0;           ///< seconds until the first byte of a message is there
  double bytes_per_second = 0;  ///< 0: no limit

  friend bool operator==(const Link&, const Link&) = default;
};

/// What messages and sums cost, for pricing schedules. The lines of a host are full duplex, shared
/// by its ranks, and carry one message at a time.
struct LinkModel {
  Link in_host = {};       ///< between ranks of one host
  Link across_hosts = {};  ///< between hosts
  /// Where pairs differ: [from * ranks + to]. Empty: by class, as above.
  std::vector<Link> pairs = {};
  double message_seconds = 0;  ///< what each end's processor spends on a message
  /// Above 1 they share processors, as if each could work for all; these then also move the bytes
  /// within a host.
  double ranks_per_processor = 1;
  /// What a rank's processor reads and writes when it adds; 0: adding is free.
  double reduce_bytes_per_second = 0;

  /// A guess, where nothing was measured: 10 Gbit/s between hosts, loopback's 3 GB/s within one.
  static LinkModel typical();
  /// The same for GPUs: 20 GB/s within a host, 10 GB/s between hosts.
  static LinkModel typical_cards();

  const Link& between(const Placement& placement, int from, int to) const;

  /// One line of JSON, for the other ranks and for checkpoints: plans made of equal models are
  /// equal.
  std::string to_json() const;
  /// @throws Error kInvalidArgument: says what is wrong with the text.
  static LinkModel from_json(const std::string& text);

  friend bool operator==(const LinkModel&, const LinkModel&) = default;
};

/// What is sent.
struct Payload {
  int64_t elements = 0;
  int64_t element_bytes = 4;
  int64_t partial_bytes = 4;  ///< of a sum of some replicas; 4 for 16-bit floats
};

/// How long the slowest rank takes when all start together, in seconds: the schedule's steps as
/// discrete events.
/// @param at_most  Whatever takes longer is infinity, and found out sooner.
/// Cost: about 0.1 us a step.
double price(const Schedule& schedule, const Placement& placement, const LinkModel& links,
             const Payload& payload, double at_most = std::numeric_limits<double>::infinity());

/// A time below which the price cannot be: the busiest line's messages, or the stages' latencies.
/// Segments change nothing of it but latencies.
double least_price(const Schedule& schedule, const Placement& placement, const LinkModel& links,
                   const Payload& payload);

}  // namespace strata::collective
