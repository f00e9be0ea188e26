#include "ps/tables/client.h"

#include <utility>

#include "ps/tables/flat_table.h"
#include "ps/tables/server_calls.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/ps/row_table.h"

namespace strata::ps {
namespace {

/// Makes the table on all servers. @return whether a server wants the first values.
bool create(ServerCalls& calls, const TableSpec& spec, bool waits) {
  check_table(spec, calls.num_servers());
  if (spec.backup) calls.has_backup(spec.name);
  const std::string text = table_to_json(spec).dump();
  std::vector<ServerCalls::Exchange> exchanges;
  for (int server = 0; server < calls.num_servers(); ++server) {
    exchanges.push_back(
        {.server = server,
         .request = {
             .kind = RequestKind::kCreate, .table = spec.name, .text = text, .flag = waits}});
  }
  bool wanted = false;
  for (const Reply& reply :
       calls.run(std::move(exchanges), str_cat("making table '", spec.name, "'"))) {
    wanted = wanted || reply.flag;
  }
  return wanted;
}

}  // namespace

Client::Client(const cluster::ClusterSpec& spec, const cluster::TaskId& self, ClientOptions options)
    : calls_(std::make_shared<ServerCalls>(spec, self, std::move(options))) {}
Client::~Client() = default;

int Client::num_servers() const { return calls_->num_servers(); }

at::Tensor Client::make_buffer(int64_t elements, c10::ScalarType dtype) {
  STRATA_CHECK(elements >= 0, kInvalidArgument, "[ps] make_buffer: got ", elements, " elements");
  return calls_->memory().make_buffer(elements, dtype);
}

std::shared_ptr<FlatTable> Client::create_flat(TableSpec spec, const at::Tensor& initial,
                                               bool first) {
  STRATA_CHECK(spec.is_flat(), kInvalidArgument, "[ps] create_flat: got the table '", spec.name,
               "' without parts (cut_evenly makes them)");
  const bool wanted = create(*calls_, spec, /*waits=*/!first);
  auto table = std::make_shared<FlatTable>(std::move(spec), calls_);
  if (wanted) {
    table->write(initial, 0);
  } else {
    table->read(initial);
  }
  return table;
}

std::shared_ptr<RowTable> Client::create_rows(TableSpec spec) {
  STRATA_CHECK(!spec.is_flat(), kInvalidArgument, "[ps] create_rows: got the table '", spec.name,
               "' with parts; its rows are dealt out to the servers in turn");
  create(*calls_, spec, /*waits=*/false);
  return std::make_shared<RowTable>(std::move(spec), calls_);
}

void Client::leave(bool job_done) {
  std::vector<ServerCalls::Exchange> exchanges;
  for (int server = 0; server < num_servers(); ++server) {
    exchanges.push_back(
        {.server = server, .request = {.kind = RequestKind::kLeave, .flag = job_done}});
  }
  calls_->run(std::move(exchanges), "leaving");
}

}  // namespace strata::ps
