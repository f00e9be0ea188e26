// A process of strata in suite ps: a server, the worker, or one end of the plain copy.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/ps/client.h"
#include "strata/ps/flat_table.h"
#include "strata/ps/parameter_server.h"
#include "strata/ps/row_table.h"
#include "strata/tensor/cpu_allocator.h"
#include "strata/wire/socket_transport.h"
#include "tools/arguments.h"
#include "tools/bench_calls.h"
#include "tools/bench_ps.h"

namespace strata::tools {
namespace {

struct WorkerOptions {
  std::string role;
  int task = 0;
  std::vector<std::string> workers;
  std::vector<std::string> servers;
};

wire::Deadline limit() { return wire::Deadline::after(std::chrono::seconds(60)); }

/// What the worker asks of strata's servers.
class TableCalls {
 public:
  explicit TableCalls(const WorkerOptions& options)
      : servers_(static_cast<int>(options.servers.size())),
        client_({{"worker", options.workers}, {"ps", options.servers}}, {"worker", options.task}) {}
  ~TableCalls() { client_.leave(/*job_done=*/true); }

  std::function<void()> prepare(const Calls& calls) {
    if (calls.operation == "rows") return rows();
    const Flat& flat = table(calls.bytes / 4);
    if (calls.operation == "push_pull") {
      check(flat);
      return
          [&flat] { flat.table->push_pull(flat.gradients, flat.values, {.learning_rate = 1e-9}); };
    }
    STRATA_CHECK(calls.operation == "pull", kInvalidArgument, "[strata bench] got operation ",
                 calls.operation);
    return [&flat] { flat.table->pull(flat.values); };
  }

 private:
  struct Flat {
    std::shared_ptr<ps::FlatTable> table;
    at::Tensor values;
    at::Tensor gradients;
  };

  const Flat& table(int64_t elements) {
    Flat& flat = flats_[elements];
    if (flat.table) return flat;
    flat.values = at::zeros({elements});
    flat.gradients = at::ones({elements});
    flat.table = client_.create_flat({.name = str_cat("dense-", elements),
                                      .rule = tensor::SgdRule{},
                                      .parts = ps::cut_evenly(elements, 4, servers_)},
                                     flat.values, /*first=*/true);
    return flat;
  }

  static void check(const Flat& flat) {
    flat.table->pull(flat.values);
    const at::Tensor before = flat.values.clone();
    flat.table->push_pull(flat.gradients, flat.values, {.learning_rate = 1});
    STRATA_CHECK(before.sub(flat.values).equal(flat.gradients), kInternal,
                 "[strata bench] got other values than SGD's");
  }

  std::function<void()> rows() {
    if (!rows_) {
      rows_ = client_.create_rows(
          {.name = "rows",
           .rule = tensor::AdagradRule{},
           .rows = kPsRows,
           .width = kPsWidth,
           .initializer = {.kind = ps::RowInitializer::Kind::kUniform, .a = -0.1, .b = 0.1}});
      ids_ = at::randint(kPsRows, {8, kPsRowsACall}, at::kLong);
    }
    return [this] {
      const ps::PulledRows pulled = rows_->pull(ids_[turn_++ % ids_.size(0)]);
      rows_->push(pulled, pulled.values, {.learning_rate = 1e-3});
    };
  }

  const int servers_;
  ps::Client client_;
  std::map<int64_t, Flat> flats_;  // by elements
  std::shared_ptr<ps::RowTable> rows_;
  at::Tensor ids_;
  int64_t turn_ = 0;
};

/// The wire alone: bytes go to each server's process and come back, cut as a flat table is, in
/// messages of at most 1 MiB. All processes make the same calls.
class Copy {
 public:
  explicit Copy(const WorkerOptions& options)
      : is_worker_(options.role == "copy-worker"),
        task_(options.task),
        servers_(static_cast<int>(options.servers.size())),
        transport_(wire::make_socket_transport()) {
    const wire::Hello hello = {
        .job = "bench",
        .task = str_cat(is_worker_ ? "/job:worker/task:" : "/job:ps/task:", task_),
        .purpose = "copy"};
    if (!is_worker_) {
      transport_->listen(wire::Address::parse(options.servers[static_cast<size_t>(task_)]), hello);
      connections_.push_back(transport_->accept(limit()));
      return;
    }
    for (const std::string& server : options.servers) {
      connections_.push_back(transport_->connect(wire::Address::parse(server), hello, limit()));
    }
  }

  std::function<void()> prepare(const Calls& calls) {
    std::vector<ps::TablePart> parts = ps::cut_evenly(calls.bytes / 4, 4, servers_);
    if (!is_worker_) {
      std::erase_if(parts, [&](const ps::TablePart& part) { return part.server != task_; });
    }
    const auto bytes = static_cast<size_t>(calls.bytes);
    there_.assign(bytes, std::byte{1});
    back_.assign(bytes, std::byte{0});
    const auto call = [this, parts] { is_worker_ ? ask(parts) : answer(parts); };
    call();
    STRATA_CHECK(!is_worker_ || back_ == there_, kInternal,
                 "[strata bench] got other bytes than were sent");
    return call;
  }

 private:
  static constexpr size_t kMessage = size_t{1} << 20;
  static constexpr uint32_t kThere = 2;
  static constexpr uint32_t kBack = 3;

  /// What of `buffer` goes over which connection.
  template <typename Function>
  void each_message(const std::vector<ps::TablePart>& parts, std::vector<std::byte>& buffer,
                    const Function& function) {
    for (const ps::TablePart& part : parts) {
      const auto& connection = connections_[is_worker_ ? static_cast<size_t>(part.server) : 0];
      const auto end = static_cast<size_t>(part.end) * 4;
      for (auto at = static_cast<size_t>(part.begin) * 4; at < end; at += kMessage) {
        transfers_.push_back(
            function(*connection, std::span(buffer).subspan(at, std::min(kMessage, end - at))));
      }
    }
  }
  void send(uint32_t channel, const std::vector<ps::TablePart>& parts,
            std::vector<std::byte>& buffer) {
    each_message(parts, buffer, [&](wire::Connection& connection, std::span<std::byte> bytes) {
      return connection.send({channel, call_, 0}, bytes);
    });
  }
  void receive(uint32_t channel, const std::vector<ps::TablePart>& parts,
               std::vector<std::byte>& buffer) {
    each_message(parts, buffer, [&](wire::Connection& connection, std::span<std::byte> bytes) {
      return connection.receive({channel, call_, 0}, bytes);
    });
  }
  void wait() {
    const Status status = transport_->wait_all(transfers_, limit());
    STRATA_CHECK(status.ok(), kUnavailable, "[strata bench] copy: ", status.message());
    transfers_.clear();
  }

  void ask(const std::vector<ps::TablePart>& parts) {
    ++call_;
    receive(kBack, parts, back_);
    send(kThere, parts, there_);
    wait();
  }
  void answer(const std::vector<ps::TablePart>& parts) {
    ++call_;
    receive(kThere, parts, there_);
    wait();
    send(kBack, parts, there_);
    wait();
  }

  const bool is_worker_;
  const int task_;
  const int servers_;
  std::unique_ptr<wire::Transport> transport_;
  std::vector<std::shared_ptr<wire::Connection>> connections_;
  std::vector<wire::Transfer> transfers_;
  std::vector<std::byte> there_, back_;
  uint32_t call_ = 0;
};

WorkerOptions read(const std::vector<std::string>& arguments) {
  WorkerOptions options;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const std::string& name = arguments[i];
    const std::string& value = arguments[i + 1];
    if (name == "--role") {
      options.role = value;
    } else if (name == "--task") {
      options.task = std::stoi(value);
    } else if (name == "--workers") {
      options.workers = split_list(value);
    } else if (name == "--servers") {
      options.servers = split_list(value);
    } else {
      STRATA_CHECK(false, kInvalidArgument, "[strata bench] got ", name);
    }
  }
  return options;
}

}  // namespace

int run_ps_worker(const std::vector<std::string>& arguments) {
  const WorkerOptions options = read(arguments);
  at::set_num_threads(1);  // others would spin beside it
  if (options.role == "copy-worker" || options.role == "copy-server") {
    Copy copy(options);
    serve_calls("copy", [&](const Calls& calls) { return copy.prepare(calls); });
    return 0;
  }
  const cluster::ClusterSpec spec = {{"worker", options.workers}, {"ps", options.servers}};
  if (options.role == "server") {
    ps::ParameterServer server(spec, {"ps", options.task});
    serve_others("strata");
    server.join();  // the worker leaves; who waits too long is ended
    return 0;
  }
  tensor::install_cpu_allocator();  // as every strategy does
  if (options.role == "trainer") {
    serve_ps_training(spec, {"worker", options.task});
    return 0;
  }
  STRATA_CHECK(options.role == "worker", kInvalidArgument, "[strata bench] ps-worker: got role ",
               options.role, "; expected worker, trainer, server, copy-worker or copy-server");
  TableCalls tables(options);
  serve_calls("strata", [&](const Calls& calls) { return tables.prepare(calls); });
  return 0;
}

}  // namespace strata::tools
