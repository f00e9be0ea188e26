#pragma once

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ps/tables/client.h"
#include "ps/tables/flat_table.h"
#include "ps/tables/parameter_server.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/core/str_cat.h"
#include "strata/ps/row_table.h"
#include "support/process_cluster.h"

namespace strata::test {

/// What a worker trains on two servers of 127.0.0.1, over the wire that `options` gives each task:
/// a flat table of more than one message, with a backup, and rows.
/// @param shared  Through the host's memory where it can.
inline std::vector<at::Tensor> train_by_wire(
    const std::function<cluster::ServerOptions(const cluster::TaskId&)>& options, bool shared) {
  const std::vector<int> ports = free_ports(3);
  const auto address = [&](size_t i) { return str_cat("127.0.0.1:", ports[i]); };
  const cluster::ClusterSpec spec = {{"ps", {address(0), address(1)}}, {"worker", {address(2)}}};
  std::vector<std::unique_ptr<ps::ParameterServer>> servers;
  for (int i = 0; i < 2; ++i) {
    const cluster::TaskId task = {"ps", i};
    servers.push_back(std::make_unique<ps::ParameterServer>(
        spec, task, ps::ParameterServerOptions{.server = options(task)}));
  }
  const cluster::TaskId worker = {"worker", 0};
  ps::Client client(spec, worker, {.server = options(worker), .share_memory = shared});
  constexpr int64_t kElements = 700'000;
  at::Tensor values = client.make_buffer(kElements);
  at::Tensor gradients = client.make_buffer(kElements);
  const auto table = client.create_flat({.name = "weights",
                                         .rule = tensor::AdamRule{},
                                         .backup = true,
                                         .parts = ps::cut_evenly(kElements, 4, 2)},
                                        values, true);
  const auto rows = client.create_rows({.name = "users", .rows = 1000, .width = 8});
  at::Generator generator = at::detail::createCPUGenerator(1);
  ps::PulledRows pulled;
  for (int step = 0; step < 3; ++step) {
    table->push_pull(gradients.normal_(0, 1, generator), values, {.learning_rate = 0.1});
    pulled = rows->pull(at::full({5}, step, at::kLong));
    rows->push(pulled, at::full(pulled.values.sizes(), 1.0F), {.learning_rate = 0.5});
  }
  std::vector<at::Tensor> trained = {values.clone(), rows->read()};
  client.leave(/*job_done=*/true);
  for (const auto& server : servers) server->join();
  return trained;
}

inline void expect_same(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(other[i])) << i;
}

}  // namespace strata::test
