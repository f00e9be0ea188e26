#include "collective/planner/measure_links.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <thread>

#include "strata/core/error.h"
#include "tensor/tree_sum.h"

namespace strata::collective {
namespace {

constexpr int kTries = 5;
constexpr int64_t kLeastProbeBytes = 64 << 10;
constexpr int64_t kMostProbeBytes = 16 << 20;
constexpr double kShort = 100e-6;  // seconds there and back, for which more tries cost little
constexpr double kLong = 1e-3;     // seconds there, from which on processors hardly matter
constexpr int kTalkRounds = 4;
constexpr int kTalk = 8;  // messages
constexpr int kLongTalk = 24;
constexpr double kCrowded = 1.5;  // ranks a processor; fewer may be an error of measurement
constexpr double kMostAtBothEnds = 40e-6;  // seconds of a message; what is above is one, too
constexpr double kLongEnough = 5e-3;  // seconds of a large message: above it noise does not count

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Messages to and from one peer, waited for one by one.
class LinkProbe {
 public:
  LinkProbe(wire::Transport& transport, wire::Connection& peer, wire::Deadline deadline,
            uint32_t channel)
      : transport_(transport), peer_(peer), deadline_(deadline), tag_{.channel = channel} {}

  void send(std::span<const std::byte> bytes) { finish(peer_.send(tag_, bytes)); }
  void receive(std::span<std::byte> bytes) { finish(peer_.receive(tag_, bytes)); }
  void send_number(int64_t number) { send(std::as_bytes(std::span(&number, 1))); }
  int64_t receive_number() {
    int64_t number = 0;
    receive(std::as_writable_bytes(std::span(&number, 1)));
    return number;
  }

 private:
  void finish(wire::Transfer transfer) { transport_.wait(transfer, deadline_).throw_if_error(); }

  wire::Transport& transport_;
  wire::Connection& peer_;
  const wire::Deadline deadline_;
  const wire::Tag tag_;
};

/// Seconds for `bytes` there and an answer back, the best of some tries.
double round_trip(LinkProbe& link, int64_t bytes, std::vector<std::byte>& buffer, int tries) {
  buffer.resize(static_cast<size_t>(bytes));
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    link.send_number(bytes);
    link.send(buffer);
    link.receive_number();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

/// What `measure` asks for; until it asks for nothing more.
void answer(LinkProbe link) {
  std::vector<std::byte> buffer;
  for (int64_t bytes = link.receive_number(); bytes > 0; bytes = link.receive_number()) {
    buffer.resize(static_cast<size_t>(bytes));
    link.receive(buffer);
    link.send_number(bytes);
  }
}

Link measure(LinkProbe link) {
  std::vector<std::byte> buffer;
  double small = round_trip(link, 8, buffer, 2 * kTries);
  if (small < kShort) small = std::min(small, round_trip(link, 8, buffer, 10 * kTries));
  // How much longer a large one takes than one of half its size: what happens once cancels out.
  int64_t bytes = kLeastProbeBytes;
  double half = small;
  double whole = round_trip(link, bytes, buffer, kTries);
  while (whole < kLongEnough && bytes < kMostProbeBytes) {
    bytes *= 2;
    half = whole;
    whole = round_trip(link, bytes, buffer, 3);
  }
  link.send_number(0);
  const auto longer = static_cast<double>(bytes == kLeastProbeBytes ? bytes - 8 : bytes / 2);
  return {.latency = small / 2, .bytes_per_second = longer / std::max(whole - half, 1e-9)};
}

/// All ranks of `circle` talk at once: each sends so many `messages`, to the others in turn, and
/// gets as many. @return seconds, the best of some tries.
template <typename LinkTo>
double talk(const std::vector<int>& circle, int rank, const LinkTo& link, int64_t tries,
            int messages) {
  const auto size = static_cast<int>(circle.size());
  const auto place = static_cast<int>(std::ranges::find(circle, rank) - circle.begin());
  const auto other = [&](int distance) {
    return link(circle[static_cast<size_t>((place + distance + size) % size)]);
  };
  double best = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < kTalkRounds; ++round) {
      for (int k = 0; k < messages; ++k) other(1 + k % (size - 1)).send_number(k);
      for (int k = 0; k < messages; ++k) other(-1 - k % (size - 1)).receive_number();
    }
    best = std::min(best, seconds_since(start) / kTalkRounds);
  }
  return best;
}

/// Of buffers that no cache holds. For small ones that is too slow, which matters little: their
/// messages' latencies decide. Large ones are where the choice between schedules costs most.
double measure_adding() {
  constexpr int64_t kSize = 4 << 20;
  std::vector<float> a(kSize, 1);
  std::vector<float> b(kSize, 2);
  const float* const sources[2] = {a.data(), b.data()};
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    tensor::sum_in_tree_order(sources, 2, kSize, a.data());
    best = std::min(best, seconds_since(start));
  }
  return 3.0 * kSize * sizeof(float) / best;
}

/// The processors' part of messages, out of what two ranks take for a talk and for a long one, and
/// all of `ranks` for a talk.
/// @param latency  Of a message between the two; the rest of it is the line's.
void find_processors(double latency, double alone, double longer, double all, size_t ranks,
                     LinkModel& model) {
  const double most = std::max(1e-7, std::min(0.9 * latency, kMostAtBothEnds));
  const double both_ends = std::clamp((longer - alone) / (kLongTalk - kTalk), 1e-7, most);
  model.message_seconds = both_ends / 2;
  const double line = latency - both_ends;
  // Where the line takes longer, chance decides.
  if (line > kTalk * both_ends) return;
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double crowd = std::min((all - line) / std::max(alone - line, both_ends),
                                static_cast<double>(ranks) / cores);
  if (crowd > kCrowded) model.ranks_per_processor = crowd;
}

}  // namespace

LinkModel measure_links(int rank, const Placement& placement,
                        const std::vector<std::shared_ptr<wire::Connection>>& peers,
                        wire::Transport& transport, wire::Deadline deadline,
                        const MeasureLinksOptions& options) {
  const std::vector<int>& hosts = placement.host_of_rank;
  const auto first_other = [&](bool same_host) {
    for (size_t other = 1; other < hosts.size(); ++other) {
      if ((hosts[other] == hosts[0]) == same_host) return static_cast<int>(other);
    }
    return 0;
  };
  const int near = first_other(true);
  const int far = first_other(false);
  const auto link_to = [&](int peer) {
    return LinkProbe(transport, *peers[static_cast<size_t>(peer)], deadline, options.channel);
  };
  // Those that show what messages cost the processors: as near to rank 0 as any is.
  const int partner = near != 0 ? near : far;
  std::vector<int> circle;
  for (size_t other = 0; other < hosts.size(); ++other) {
    if (near == 0 || hosts[other] == hosts[0]) circle.push_back(static_cast<int>(other));
  }
  const bool in_circle = circle.size() > 1 && std::ranges::count(circle, rank) > 0;
  if (rank != 0) {
    if (rank == near || rank == far) answer(link_to(0));
    if (rank == partner) {
      const int64_t tries = link_to(0).receive_number();
      for (const int messages : {kTalk, kLongTalk}) talk({0, rank}, rank, link_to, tries, messages);
    }
    if (in_circle) talk(circle, rank, link_to, link_to(0).receive_number(), kTalk);
    std::string text(static_cast<size_t>(link_to(0).receive_number()), ' ');
    link_to(0).receive(std::as_writable_bytes(std::span(text)));
    return LinkModel::from_json(text);
  }
  LinkModel model = LinkModel::typical();
  if (near != 0) model.in_host = measure(link_to(near));
  if (far != 0) model.across_hosts = measure(link_to(far));
  if (in_circle) {
    const double latency = near != 0 ? model.in_host.latency : model.across_hosts.latency;
    const int tries = latency < kLong ? kTries : 0;
    link_to(partner).send_number(tries);
    const double alone = talk({0, partner}, rank, link_to, tries, kTalk);
    const double longer = talk({0, partner}, rank, link_to, tries, kLongTalk);
    for (const int other : circle) {
      if (other != 0) link_to(other).send_number(tries);
    }
    const double all = talk(circle, rank, link_to, tries, kTalk);
    if (tries > 0) find_processors(latency, alone, longer, all, circle.size(), model);
    const auto correct_latency = [&](Link& link) {
      link.latency = std::max(0.1 * link.latency, link.latency - 2 * model.message_seconds);
    };
    if (near != 0) correct_latency(model.in_host);
    if (far != 0) correct_latency(model.across_hosts);
  }
  model.reduce_bytes_per_second = measure_adding();
  const std::string text = model.to_json();
  for (int other = 1; other < placement.num_ranks(); ++other) {
    link_to(other).send_number(static_cast<int64_t>(text.size()));
    link_to(other).send(std::as_bytes(std::span(text)));
  }
  return model;
}

}  // namespace strata::collective
