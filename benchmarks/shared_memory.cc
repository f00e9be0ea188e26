// What collectives between processes of this machine take in shared memory:
// `shared_memory [ranks] [rounds] [largest KiB]`. A JSON line a result, as `strata bench` prints
// them: all_reduce of float in tensors of `buffer` ("buffer") and in others ("staged"), and over
// TCP ("wire").
#include <ATen/ops/full.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "collective/shared_memory/shared_memory_communicator.h"
#include "collective/wire/wire_communicator.h"
#include "suites/stats.h"
#include "wire/tcp/socket_transport.h"

namespace {

using namespace strata;
using namespace strata::collective;
using Clock = std::chrono::steady_clock;

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

/// Seconds that one call takes, by round.
std::vector<double> measure(Communicator& communicator, at::Tensor& tensor, int rounds) {
  const auto seconds_each = [&](int repeats) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) communicator.all_reduce_(tensor, ReduceOp::kMax);
    return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
  };
  seconds_each(2);
  at::Tensor repeats = at::full({1}, std::clamp(0.03 / seconds_each(3), 1.0, 20000.0));
  communicator.broadcast_(repeats, 0);
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(seconds_each(static_cast<int>(*repeats.const_data_ptr<float>())));
  }
  return seconds;
}

void print(const std::string& kind, int ranks, int64_t bytes, std::vector<double> seconds) {
  for (double& value : seconds) value *= 1e6;
  const bench::Estimate result = bench::estimate(seconds);
  bench::JsonLine json;
  json.add("suite", std::string("shared_memory"));
  json.add("case", str_cat(kind, "/", ranks, "/", bench::size_name(bytes)));
  json.add("system", str_cat("strata-", ranks)).add("metric", std::string("us"));
  json.add("value", result.median).add("low", result.low).add("high", result.high);
  json.add("unit", std::string("us")).add("pairs", static_cast<double>(seconds.size())).print();
}

void run(int rank, int ranks, int rounds, int64_t largest, std::shared_ptr<Communicator> wire) {
  SharedMemoryCommunicator shared(wire, {.name = str_cat("rank ", rank)});
  for (const int64_t bytes :
       {kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
    if (bytes > largest) return;
    const int64_t elements = bytes / 4;
    at::Tensor plain = at::full({elements}, 1.0 + rank);
    at::Tensor buffer = shared.buffer(elements, at::kFloat);
    buffer.copy_(plain);
    const auto staged = measure(shared, plain, rounds);
    const auto in_place = measure(shared, buffer, rounds);
    const auto over_wire = measure(*wire, plain, std::min(rounds, 5));
    if (rank != 0) continue;
    print("staged", ranks, bytes, staged);
    print("buffer", ranks, bytes, in_place);
    print("wire", ranks, bytes, over_wire);
  }
}

wire::Deadline limit() { return wire::Deadline::after(std::chrono::seconds(60)); }

std::string task(int rank) { return str_cat("/job:worker/task:", rank); }

/// Every rank listens, learns the others' ports through pipes, and connects to those before it.
std::shared_ptr<Communicator> connect(int rank, int ranks,
                                      const std::vector<std::vector<int>>& pipes,
                                      const std::shared_ptr<wire::Transport>& transport) {
  const auto hello =
      wire::Hello{.job = "bench", .task = task(rank), .generation = 0, .purpose = "bench"};
  const uint16_t local = transport->listen({.host = "127.0.0.1", .port = 0}, hello).port;
  for (int other = rank + 1; other < ranks; ++other) {
    const int told = pipes[static_cast<size_t>(other)][1];
    const uint16_t message[] = {static_cast<uint16_t>(rank), local};
    if (::write(told, message, sizeof message) != sizeof message) ::_exit(1);
  }
  std::vector<std::shared_ptr<wire::Connection>> peers(static_cast<size_t>(ranks));
  for (int i = 0; i < rank; ++i) {
    uint16_t message[2];
    if (::read(pipes[static_cast<size_t>(rank)][0], message, sizeof message) != sizeof message) {
      ::_exit(1);
    }
    peers[message[0]] =
        transport->connect({.host = "127.0.0.1", .port = message[1]}, hello, limit());
  }
  for (int i = rank + 1; i < ranks; ++i) {
    auto peer = transport->accept(limit());
    const std::string& name = peer->peer().task;
    peers[static_cast<size_t>(std::stoi(name.substr(name.rfind(':') + 1)))] = std::move(peer);
  }
  const Placement placement = Placement::blocks(std::vector<int>(static_cast<size_t>(ranks), 1));
  return std::make_shared<WireCommunicator>(
      rank, std::move(peers), transport,
      std::make_shared<Planner>(placement, LinkModel::typical(), CommunicationOptions{}));
}

int run_main(int ranks, int rounds, int64_t largest) {
  std::vector<std::vector<int>> pipes;
  for (int i = 0; i < ranks; ++i) {
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    pipes.push_back({ends[0], ends[1]});
  }
  std::vector<pid_t> children;
  int rank = 0;
  while (rank + 1 < ranks) {
    const pid_t child = ::fork();
    if (child == 0) break;
    children.push_back(child);
    ++rank;
  }
  // The parent is the last rank, so that `rank` is right in all.
  const std::shared_ptr<wire::Transport> transport = wire::make_socket_transport();
  run(rank, ranks, rounds, largest, connect(rank, ranks, pipes, transport));
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed |= status;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_main(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 15,
                    (argc > 3 ? std::atoi(argv[3]) : 64 * kKiB) * kKiB);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
