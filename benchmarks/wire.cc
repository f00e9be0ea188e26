// What the wire takes between two processes of this machine: `wire [tcp|tls|ucx] [pairs] [CASE]`,
// where CASE is a part of the names of those to run. A JSON line a result, as `strata bench` prints
// them: `one_way` half of a message there and back, `exchange` both send and receive that much,
// `all_reduce` halves are exchanged, summed and exchanged back.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "suites/stats.h"
#include "wire/tcp/socket_transport.h"
#include "wire/tls/certificates.h"
#include "wire/ucx/ucx_transport.h"

namespace {

using namespace strata;
using namespace strata::wire;
using Clock = std::chrono::steady_clock;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

Deadline limit() { return Deadline::after(std::chrono::seconds(60)); }

struct Rank {
  int rank;
  Transport& transport;
  Connection& peer;
  std::string filter = {};
  uint32_t id = 0;
  std::vector<float> local = std::vector<float>(64 * kMiB / sizeof(float), 1.0f);
  std::vector<float> remote = std::vector<float>(64 * kMiB / sizeof(float), 0.0f);

  void check(const Status& status) {
    if (status.ok()) return;
    std::cerr << status.message() << std::endl;
    ::_exit(1);
  }

  std::span<std::byte> bytes(std::vector<float>& of, size_t offset, size_t size) {
    return std::as_writable_bytes(std::span(of)).subspan(offset, size);
  }

  void send(size_t size) {
    Transfer transfer =
        peer.send({.channel = 0, .id = ++id, .fingerprint = size}, bytes(local, 0, size));
    check(transport.wait(transfer, limit()));
  }
  void receive(size_t size) {
    Transfer transfer =
        peer.receive({.channel = 0, .id = ++id, .fingerprint = size}, bytes(remote, 0, size));
    check(transport.wait(transfer, limit()));
  }
  void there_and_back(size_t size) {
    if (rank == 0) {
      send(size);
      receive(size);
    } else {
      receive(size);
      send(size);
    }
  }
  void exchange(std::span<std::byte> from, std::span<std::byte> to) {
    const Tag tag = {.channel = 0, .id = ++id, .fingerprint = from.size()};
    Transfer both[] = {peer.receive(tag, to), peer.send(tag, from)};
    check(transport.wait_all(both, limit()));
  }
  void exchange(size_t size) { exchange(bytes(local, 0, size), bytes(remote, 0, size)); }

  // What has arrived is summed while the rest is on its way.
  void all_reduce(size_t size) {
    const size_t half = size / 2;
    const size_t own = rank == 0 ? 0 : half;
    const size_t other = half - own;
    const Tag tag = {.channel = 0, .id = ++id, .fingerprint = size};
    Transfer both[] = {peer.receive(tag, bytes(remote, 0, half)),
                       peer.send(tag, bytes(local, other, half))};
    float* const into = local.data() + own / sizeof(float);
    size_t summed = 0;
    while (summed < half) {
      constexpr size_t kStep = 256 * kKiB;
      const size_t until = std::min(half, summed + kStep);
      transport.wait_until([&] { return both[0].arrived() >= until || both[0].done(); }, limit());
      if (both[0].done()) check(both[0].status());
      for (size_t i = summed / sizeof(float); i < until / sizeof(float); ++i) into[i] += remote[i];
      summed = until;
    }
    check(transport.wait_all(both, limit()));
    exchange(bytes(local, own, half), bytes(local, other, half));
  }
};

template <typename Body>
double seconds_each(int repeats, Body&& body) {
  const auto start = Clock::now();
  for (int i = 0; i < repeats; ++i) body();
  return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
}

void print(const std::string& wire, const std::string& what, const std::vector<double>& values,
           const char* metric, const char* unit) {
  const bench::Estimate result = bench::estimate(values);
  bench::JsonLine json;
  json.add("suite", std::string("wire")).add("case", str_cat(wire, "/", what));
  json.add("system", std::string("strata-2")).add("metric", std::string(metric));
  json.add("value", result.median).add("low", result.low).add("high", result.high);
  json.add("unit", std::string(unit)).add("pairs", static_cast<double>(values.size())).print();
}

template <typename Body>
void measure(Rank& rank, const std::string& wire, const std::string& name, size_t size, int rounds,
             double parts, Body&& body) {
  const std::string what = str_cat(name, "/", bench::size_name(static_cast<int64_t>(size)));
  if (what.find(rank.filter) == std::string::npos) return;
  body();
  // Rank 0 says how often.
  uint64_t repeats = 0;
  const double once = seconds_each(3, body);
  if (rank.rank == 0) {
    repeats = static_cast<uint64_t>(std::clamp(0.05 / once, 1.0, 20000.0));
    rank.peer.send_message(1, std::to_string(repeats));
  } else {
    repeats = std::stoull(rank.peer.receive_message(1, limit()));
  }
  std::vector<double> us, rate;
  for (int round = 0; round < rounds; ++round) {
    const double seconds = seconds_each(static_cast<int>(repeats), body) / parts;
    us.push_back(seconds * 1e6);
    rate.push_back(static_cast<double>(size) / seconds * 1e-9);
  }
  if (rank.rank != 0) return;
  print(wire, what, us, "us", "us");
  if (size >= kMiB) print(wire, what, rate, "bandwidth", "GB/s");
}

void run(Rank& rank, const std::string& wire, int rounds) {
  for (const size_t size : {size_t{8}, kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 64 * kMiB})
    measure(rank, wire, "one_way", size, rounds, 2, [&] { rank.there_and_back(size); });
  for (const size_t size : {kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB})
    measure(rank, wire, "exchange", size, rounds, 1, [&] { rank.exchange(size); });
  for (const size_t size : {kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB})
    measure(rank, wire, "all_reduce", size, rounds, 1, [&] { rank.all_reduce(size); });
}

Hello hello_of(int rank) {
  return {.job = "bench",
          .task = str_cat("/job:worker/task:", rank),
          .generation = 0,
          .purpose = "bench"};
}

int run_main(const std::string& wire, int rounds, const std::string& filter) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / str_cat("strata-bench-wire-", ::getpid())).string();
  if (wire == "tls") {
    const Certificate authority = make_authority("bench");
    write_certificate(authority, folder, "authority");
    for (int rank = 0; rank < 2; ++rank)
      write_certificate(issue_certificate(authority, hello_of(rank).task), folder, str_cat(rank));
  }
  const auto options = [&](int rank) {
    SocketOptions result;
    if (wire == "tls") {
      result.tls = TlsOptions{.authority_file = folder + "/authority.pem",
                              .certificate_file = str_cat(folder, "/", rank, ".pem"),
                              .key_file = str_cat(folder, "/", rank, ".key")};
    }
    return result;
  };
  const auto make = [&](int rank) {
    return wire == "ucx" ? make_ucx_transport() : make_socket_transport(options(rank));
  };
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto transport = make(1);
    const Address address = transport->listen({.host = "127.0.0.1", .port = 0}, hello_of(1));
    [[maybe_unused]] const ssize_t told = ::write(ends[1], &address.port, sizeof address.port);
    const auto peer = transport->accept(limit());
    Rank rank{.rank = 1, .transport = *transport, .peer = *peer, .filter = filter};
    run(rank, wire, rounds);
    peer->close(limit());
    ::_exit(0);
  }
  uint16_t port = 0;
  if (::read(ends[0], &port, sizeof port) != sizeof port) return 1;
  const auto transport = make(0);
  const auto peer = transport->connect({.host = "127.0.0.1", .port = port}, hello_of(0), limit());
  Rank rank{.rank = 0, .transport = *transport, .peer = *peer, .filter = filter};
  run(rank, wire, rounds);
  peer->close(limit());
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_main(argc > 1 ? argv[1] : "tcp", argc > 2 ? std::atoi(argv[2]) : 15,
                    argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
