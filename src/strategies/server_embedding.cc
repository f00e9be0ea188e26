#include "strata/strategies/server_embedding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>

#include <utility>

#include "ps/tables/client.h"
#include "ps/tables/parameter_server.h"
#include "runtime/gradient_hooks.h"
#include "runtime/replica_group.h"
#include "runtime/span.h"
#include "strata/core/error.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "tensor/update_rule.h"
#include "wire/memory/memory_network.h"

namespace strata {
namespace {

/// A server within this process, for those who have no other.
struct OwnServer {
  static constexpr const char* kHost = "here";

  OwnServer() {
    const cluster::ClusterSpec spec = {{"ps", {"here:1"}}, {"worker", {"here:2"}}};
    server = std::make_unique<ps::ParameterServer>(
        spec, cluster::TaskId{"ps", 0},
        ps::ParameterServerOptions{.server = {.transport = network.transport(kHost)}});
    client = std::make_shared<ps::Client>(
        spec, cluster::TaskId{"worker", 0},
        ps::ClientOptions{.server = {.transport = network.transport(kHost)}});
  }
  ~OwnServer() { client->leave(/*job_done=*/true); }

  wire::MemoryNetwork network;
  std::unique_ptr<ps::ParameterServer> server;
  std::shared_ptr<ps::Client> client;
};

/// Refuses what happens in a step of an optimizer, and not in a push.
void check_optimizer(const ServerEmbeddingOptions& embedding) {
  STRATA_CHECK(embedding.optimizer, kInvalidArgument, "[server_embedding] '", embedding.name,
               "': got no optimizer; pass one, such as optimizers::Adagrad()");
  const optimizers::Optimizer& optimizer = *embedding.optimizer;
  const optimizers::OptimizerOptions& options = optimizer.common_options();
  const std::pair<const char*, bool> not_of_tables[] = {
      {"a schedule of learning rates", optimizer.follows_schedule()},
      {"clipnorm", options.clipnorm > 0},
      {"global_clipnorm", options.global_clipnorm > 0},
      {"use_ema", options.use_ema},
      {"loss_scale_factor", options.loss_scale_factor > 0},
      {"gradient_accumulation_steps", options.gradient_accumulation_steps > 0},
      {"a dynamic loss scale", optimizer.scales_dynamically()}};
  for (const auto& [what, is_used] : not_of_tables) {
    STRATA_CHECK(!is_used, kUnimplemented, "[server_embedding] '", embedding.name, "': got ",
                 optimizer.name(), " with ", what,
                 "; expected no common option but learning_rate, weight_decay and clipvalue: rows "
                 "are updated push by push");
  }
}

}  // namespace

struct ServerEmbedding::Impl {
  ps::PulledRows pull(const at::Tensor& ids) const {
    const detail::Span span(detail::span_observer(), "pull of rows of ", options.name);
    return table->pull(ids);
  }

  std::shared_ptr<ReplicaGroup> group;
  ServerEmbeddingOptions options;
  std::unique_ptr<OwnServer> own;      // null: there are servers
  std::shared_ptr<ps::Client> client;  // before the table, which uses it
  std::shared_ptr<ps::RowTable> table;
};

ServerEmbedding::ServerEmbedding(ParameterServerStrategy& strategy, ServerEmbeddingOptions options)
    : impl_(std::make_shared<Impl>()) {
  check_optimizer(options);
  impl_->group = strategy.group().shared_from_this();
  STRATA_CHECK(strategy.client_ || strategy.num_servers() == 0, kUnimplemented,
               "[server_embedding] got a strategy with client='standalone', whose servers have no "
               "tables of rows; use an Embedding layer, or start the program on the workers");
  impl_->client = strategy.client_;
  if (!impl_->client) {
    impl_->own = std::make_unique<OwnServer>();
    impl_->client = impl_->own->client;
  }
  impl_->table = impl_->client->create_rows({.name = options.name,
                                             .dtype = options.dtype,
                                             .rule = options.optimizer->rule().options(),
                                             .backup = strategy.has_backup(),
                                             .rows = options.rows,
                                             .width = options.width,
                                             .initializer = options.initializer});
  impl_->options = std::move(options);
}

at::Tensor ServerEmbedding::lookup(const at::Tensor& ids) const {
  ps::PulledRows rows = impl_->pull(ids);
  if (!at::GradMode::is_enabled()) return rows.gather();
  rows.values.set_requires_grad(true);
  detail::add_gradient_hook(
      {.leaf = rows.values,
       .take =
           [impl = impl_, rows](const at::Tensor& gradient, const detail::GradientShare& share) {
             const detail::Span span(detail::span_observer(), "push of rows of ",
                                     impl->options.name);
             const optimizers::Optimizer& optimizer = *impl->options.optimizer;
             impl->table->push(rows, gradient,
                               {.learning_rate = optimizer.learning_rate(),
                                .scale = share.scale,
                                .weight = share.weight,
                                .weight_decay = optimizer.common_options().weight_decay,
                                .clip_value = optimizer.common_options().clipvalue,
                                .precision = impl->options.push_precision});
           }},
      impl_->group->step());
  return at::embedding(rows.values, rows.inverse);
}

ps::RowTable& ServerEmbedding::table() const { return *impl_->table; }

}  // namespace strata
