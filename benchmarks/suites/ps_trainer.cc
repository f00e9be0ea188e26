// A worker of strata on shaped lines (ps_link_model.h): step after step, for a given time.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "ps/tables/client.h"
#include "ps/tables/flat_table.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "suites/ps.h"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Order {
  char consistency[32] = {};
  long bytes = 0;
  double compute = 0;
  double seconds = 0;
};

Order order_of(const std::string& line) {
  Order order;
  const int words = std::sscanf(line.c_str(), "train %31s %ld %lf %lf", order.consistency,
                                &order.bytes, &order.compute, &order.seconds);
  STRATA_CHECK(words == 4 && order.bytes > 0 && order.bytes % 4 == 0, kInvalidArgument,
               "[strata bench] got line \"", line,
               "\"; expected train CONSISTENCY BYTES COMPUTE SECONDS");
  return order;
}

ps::ConsistencyOptions consistency_of(const std::string& name, int workers) {
  if (name == "asynchronous") return {};
  STRATA_CHECK(name == "synchronous" || name == "backups", kInvalidArgument,
               "[strata bench] got consistency ", name,
               "; expected asynchronous, synchronous or backups");
  return {.kind = ps::Consistency::kSynchronous,
          .workers = workers,
          .backups = name == "backups" ? 1 : 0};
}

/// @return when its steps ended.
std::vector<Clock::time_point> train(const cluster::ClusterSpec& spec, const cluster::TaskId& self,
                                     const Order& order) {
  // It comes and leaves each time, so that no last step waits for it.
  ps::Client client(spec, self);
  const int64_t elements = order.bytes / 4;
  const at::Tensor values = at::zeros({elements});
  const at::Tensor gradients = at::ones({elements});
  const auto table = client.create_flat(
      {.name = str_cat(order.consistency, "-", order.bytes),
       .rule = tensor::SGDRule{},
       .consistency = consistency_of(order.consistency, spec.num_tasks(self.job)),
       .parts = ps::cut_evenly(elements, 4, client.num_servers())},
      values, /*first=*/self.index == 0);
  std::vector<Clock::time_point> ends = {Clock::now()};
  const Clock::time_point end =
      ends[0] + std::chrono::ceil<Clock::duration>(Seconds(order.seconds));
  while (ends.back() < end) {
    // In place of computing, which would take the other workers' cores.
    std::this_thread::sleep_for(Seconds(order.compute));
    table->push_pull(gradients, values, {.learning_rate = 1e-9});
    ends.push_back(Clock::now());
  }
  client.leave(/*job_done=*/false);
  return ends;
}

}  // namespace

void serve_ps_training(const cluster::ClusterSpec& spec, const cluster::TaskId& self) {
  std::cout << "ready strata" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("ok");
    for (const Clock::time_point end : train(spec, self, order_of(line))) {
      std::printf(" %.6f", Seconds(end.time_since_epoch()).count());
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  if (self.index == 0) ps::Client(spec, self).leave(/*job_done=*/true);  // so that the servers end
}

}  // namespace strata::bench
