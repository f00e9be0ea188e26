// One task of a cluster of processes: what cluster_process_test.cc starts and kills.
//
//   rounds N [PAUSE_MS]  N barriers, one a round, then an orderly end
//   rejoin N             the same; when a task is lost, joins the next generation and starts over
//   exchange N BYTES     N rounds of barrier, keys and that many bytes with everybody at once
//   hold                 waits for data from its neighbour until something ends that
//
// STRATA_LIVENESS_MS sets the liveness interval, STRATA_START_MS how long it waits for the others,
// STRATA_LISTEN where it listens if that is not where the others look for it, STRATA_TLS_DIR its
// certificates.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/server.h"
#include "strata/cluster/tls_environment.h"
#include "wire/connection.h"
#include "wire/transfer.h"
#include "wire/transport.h"

namespace {

using namespace strata;
using cluster::Server;
using std::chrono::milliseconds;
using wire::Deadline;

milliseconds from_environment(const char* name, milliseconds otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : milliseconds(std::atoi(text));
}

void say(const std::string& line) {
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

void rounds(Server& server, int count, milliseconds pause) {
  const auto never = [] { return false; };
  for (int round = 0; round < count; ++round) {
    server.set_operation(str_cat("round ", round));
    (void)server.transport().wait_until(never, Deadline::after(pause), server.failed());
    server.barrier("round", soon());
    say(str_cat("round ", round));
  }
}

// With everybody at once, and one error for all that can go wrong.
void exchange(Server& server, int count, size_t bytes) {
  struct Peer {
    std::shared_ptr<wire::Connection> connection;
    std::vector<std::byte> in;
  };
  std::vector<Peer> peers;
  for (const cluster::Member& member : server.members()) {
    if (member.task == server.task()) continue;
    peers.push_back({server.connect(member.task, "mesh", soon()), std::vector<std::byte>(bytes)});
  }
  const std::vector<std::byte> out(bytes, std::byte{7});
  const std::string own = server.task().short_name();
  for (int round = 0; round < count; ++round) {
    server.set_operation(str_cat("all_reduce dense/kernel, step ", round));
    server.barrier("round", soon());
    server.set(str_cat(own, " ", round), own);
    for (const cluster::Member& member : server.members()) {
      (void)server.get(str_cat(member.task.short_name(), " ", round), soon());
    }
    std::vector<wire::Transfer> transfers;
    for (Peer& peer : peers) {
      transfers.push_back(peer.connection->receive({.id = 1}, peer.in));
      transfers.push_back(peer.connection->send({.id = 1}, out));
    }
    const Status seen = server.transport().wait_all(transfers, soon());
    if (!seen.ok()) {
      const Status why = server.root_cause(seen);
      for (Peer& peer : peers) peer.connection->fail(why);
      why.throw_if_error();
    }
    if (round == 0) say("exchanging");
  }
}

void hold(Server& server) {
  const auto members = server.members();
  size_t own = 0;
  while (members[own].task != server.task()) ++own;
  const cluster::TaskId after = members[(own + 1) % members.size()].task;
  const cluster::TaskId before = members[(own + members.size() - 1) % members.size()].task;
  (void)server.connect(after, "ring", soon());
  const auto connection = server.connect(before, "ring", soon());
  server.set_operation("all_reduce dense/kernel, step 17");
  server.barrier("holding", soon());
  say("holding");
  std::byte bytes[64];
  auto transfer = connection->receive({.id = 1}, bytes);
  const Status seen = server.transport().wait(transfer, soon());
  server.root_cause(before, seen).throw_if_error();
}

void run(const std::string& what, int count, int number) {
  const milliseconds pause(number);
  const auto found = cluster::resolve_cluster();
  STRATA_CHECK(found.has_value(), kInvalidArgument, "no cluster");
  const char* const listen = std::getenv("STRATA_LISTEN");
  Server server(found->spec, found->task,
                {.start_timeout = from_environment("STRATA_START_MS", std::chrono::seconds(60)),
                 .liveness = from_environment("STRATA_LIVENESS_MS", std::chrono::seconds(10)),
                 .listen_address = listen == nullptr ? std::nullopt : std::optional(listen),
                 .tls = cluster::tls_from_environment(found->task)});
  say(str_cat("generation ", server.generation()));
  if (what == "hold") return hold(server);
  while (true) {
    try {
      if (what == "exchange") {
        exchange(server, count, static_cast<size_t>(number));
        break;
      }
      rounds(server, count, pause);
      break;
    } catch (const Error& error) {
      if (what != "rejoin" || error.code() != ErrorCode::kUnavailable) throw;
      say(error.what());
      server.rejoin(soon());
      say(str_cat("generation ", server.generation()));
    }
  }
  server.shutdown(soon());
  say("done");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "rounds";
  const auto start = std::chrono::steady_clock::now();
  try {
    run(what, argc > 2 ? std::atoi(argv[2]) : 1, argc > 3 ? std::atoi(argv[3]) : 0);
    return 0;
  } catch (const Error& error) {
    const auto ms =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
    say(str_cat("error ", error_code_name(error.code()), " after ", ms.count(),
                " ms: ", error.what()));
    return 1;
  }
}
