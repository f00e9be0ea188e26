#include "strata/collective/measure_links.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "strata/core/error.h"
#include "strata/tensor/tree_sum.h"

namespace strata::collective {
namespace {

constexpr int kTries = 5;
constexpr int64_t kLeastBytes = 64 << 10;
constexpr int64_t kMostBytes = 16 << 20;
constexpr double kLongEnough = 5e-3;  // seconds of a large message: above it noise does not count

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Messages to and from one peer, waited for one by one.
class Line {
 public:
  Line(wire::Transport& transport, wire::Connection& peer, wire::Deadline deadline,
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
double round_trip(Line& line, int64_t bytes, std::vector<std::byte>& buffer, int tries) {
  buffer.resize(static_cast<size_t>(bytes));
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) {
    const auto start = Clock::now();
    line.send_number(bytes);
    line.send(buffer);
    line.receive_number();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

/// What `measure` asks for; until it asks for nothing more.
void answer(Line line) {
  std::vector<std::byte> buffer;
  for (int64_t bytes = line.receive_number(); bytes > 0; bytes = line.receive_number()) {
    buffer.resize(static_cast<size_t>(bytes));
    line.receive(buffer);
    line.send_number(bytes);
  }
}

Link measure(Line line) {
  std::vector<std::byte> buffer;
  const double small = round_trip(line, 8, buffer, 2 * kTries);
  // How much longer a large one takes than one of half its size: what happens once cancels out.
  int64_t bytes = kLeastBytes;
  double half = small;
  double whole = round_trip(line, bytes, buffer, kTries);
  while (whole < kLongEnough && bytes < kMostBytes) {
    bytes *= 2;
    half = whole;
    whole = round_trip(line, bytes, buffer, 3);
  }
  line.send_number(0);
  const auto longer = static_cast<double>(bytes == kLeastBytes ? bytes - 8 : bytes / 2);
  return {.latency = small / 2, .bytes_per_second = longer / std::max(whole - half, 1e-9)};
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
    const auto start = Clock::now();
    tensor::sum_in_tree_order(sources, 2, kSize, a.data());
    best = std::min(best, seconds_since(start));
  }
  return 3.0 * kSize * sizeof(float) / best;
}

}  // namespace

LinkModel measure_links(int rank, const Placement& placement,
                        const std::vector<std::shared_ptr<wire::Connection>>& peers,
                        wire::Transport& transport, wire::Deadline deadline,
                        const MeasureLinksOptions& options) {
  const std::vector<int>& hosts = placement.host_of_rank;
  const auto partner = [&](bool same_host) {
    for (size_t other = 1; other < hosts.size(); ++other) {
      if ((hosts[other] == hosts[0]) == same_host) return static_cast<int>(other);
    }
    return 0;
  };
  const int near = partner(true);
  const int far = partner(false);
  const auto line = [&](int peer) {
    return Line(transport, *peers[static_cast<size_t>(peer)], deadline, options.channel);
  };
  if (rank != 0) {
    if (rank == near || rank == far) answer(line(0));
    std::string text(static_cast<size_t>(line(0).receive_number()), ' ');
    line(0).receive(std::as_writable_bytes(std::span(text)));
    return LinkModel::from_json(text);
  }
  LinkModel model = LinkModel::typical();
  if (near != 0) model.in_host = measure(line(near));
  if (far != 0) model.across_hosts = measure(line(far));
  // The processors' part of the quickest message; the rest of its time is the line's.
  const double latency = near != 0 ? model.in_host.latency : model.across_hosts.latency;
  model.message_seconds = std::min(model.message_seconds, latency / 4);
  model.reduce_bytes_per_second = measure_adding();
  const std::string text = model.to_json();
  for (int other = 1; other < placement.num_ranks(); ++other) {
    line(other).send_number(static_cast<int64_t>(text.size()));
    line(other).send(std::as_bytes(std::span(text)));
  }
  return model;
}

}  // namespace strata::collective
