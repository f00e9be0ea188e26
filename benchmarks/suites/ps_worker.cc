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

#include "ps/tables/client.h"
#include "ps/tables/flat_table.h"
#include "ps/tables/parameter_server.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/ps/row_table.h"
#include "strata/tensor/cpu_allocator.h"
#include "suites/calls.h"
#include "suites/ps.h"
#include "tools/command_line.h"
#include "wire/tcp/socket_transport.h"

namespace strata::bench {
namespace {

/// What the worker asks of strata's servers.
class TableCalls {
 public:
  explicit TableCalls(const PsWorkerOptions& options)
      : servers_(static_cast<int>(options.servers.size())),
        client_({{"worker", options.workers}, {"ps", options.servers}}, {"worker", options.task},
                {.share_memory = options.role == "worker"}) {}
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
    flat.values = client_.make_buffer(elements);
    flat.gradients = client_.make_buffer(elements).fill_(1);
    flat.table = client_.create_flat({.name = str_cat("dense-", elements),
                                      .rule = tensor::SGDRule{},
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

PsWorkerOptions read(const std::vector<std::string>& arguments) {
  PsWorkerOptions options;
  tools::CommandLine line("strata bench ps-worker", {});
  line.text("--role", "ROLE", "", options.role);
  line.number("--task", "I", "", options.task, 0);
  line.list("--workers", "A,B", "", options.workers);
  line.list("--servers", "A,B", "", options.servers);
  STRATA_CHECK(line.read(arguments), kInvalidArgument, "[strata bench] got --help for a worker");
  return options;
}

}  // namespace

int run_ps_worker(const std::vector<std::string>& arguments) {
  const PsWorkerOptions options = read(arguments);
  at::set_num_threads(1);  // others would spin beside it
  if (options.role.starts_with("copy-")) return run_ps_copy(options);
  if (options.role.starts_with("memory-")) return run_ps_memory_copy(options);
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
  STRATA_CHECK(options.role == "worker" || options.role == "wire-worker", kInvalidArgument,
               "[strata bench] ps-worker: got role ", options.role,
               "; expected worker, wire-worker, trainer, server, copy-worker, copy-server, "
               "memory-worker or memory-server");
  TableCalls tables(options);
  serve_calls("strata", [&](const Calls& calls) { return tables.prepare(calls); });
  return 0;
}

}  // namespace strata::bench
