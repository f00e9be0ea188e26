#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/strategies/standalone.h"
#include "strategies/standalone/client.h"

namespace strata {

ClientSession::ClientSession(std::shared_ptr<standalone::StandaloneClient> client,
                             ReplicaGroup& group)
    : client_(std::move(client)), group_(group) {
  if (!client_) return;
  group_.set_step(client_->runs());
  group_.observe(client_);
}

ClientSession::~ClientSession() = default;

int ClientSession::num_servers() const { return client_ ? client_->num_servers() : 0; }
int ClientSession::num_parameter_servers() const {
  return client_ ? client_->num_parameter_servers() : 0;
}

std::string ClientSession::session() const { return client_ ? client_->session() : ""; }
uint64_t ClientSession::runs() const { return client_ ? client_->runs() : group_.step(); }
void ClientSession::fetch() {
  if (client_) client_->fetch();
}
void ClientSession::push() {
  if (client_) client_->push();
}
data::Dataset ClientSession::server_dataset(const ServerDatasetOptions& options) {
  STRATA_CHECK(client_ != nullptr, kFailedPrecondition, "[", group_.name(),
               "] server_dataset: got client='in_process', whose replicas are here; expected "
               "client='standalone', or make a data::Dataset");
  return client_->describe(options);
}
void ClientSession::close() {
  if (client_) client_->close();
}

}  // namespace strata
