#include "strata/strategies/server_embedding.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>

#include <utility>

#include "ps/tables/client.h"
#include "ps/tables/parameter_server.h"
#include "runtime/gradient_hooks.h"
#include "runtime/span.h"
#include "strata/strategies/parameter_server_strategy.h"
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
  impl_->group = strategy.group().shared_from_this();
  impl_->client = strategy.client();
  if (!impl_->client) {
    impl_->own = std::make_unique<OwnServer>();
    impl_->client = impl_->own->client;
  }
  impl_->table = impl_->client->create_rows({.name = options.name,
                                             .dtype = options.dtype,
                                             .rule = options.rule,
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
             impl->table->push(rows, gradient,
                               {.learning_rate = impl->options.learning_rate,
                                .scale = share.scale,
                                .weight = share.weight,
                                .precision = impl->options.push_precision});
           }},
      impl_->group->step());
  return at::embedding(rows.values, rows.inverse);
}

ps::RowTable& ServerEmbedding::table() const { return *impl_->table; }

}  // namespace strata
