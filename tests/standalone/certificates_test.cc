// Standalone clients and servers with a job's certificates.
#include <torch/torch.h>

#include "standalone/programs.h"
#include "standalone/servers.h"
#include "strata/cluster/tls_environment.h"
#include "strata/core/file_system.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "support/replicas.h"
#include "support/temp_folder.h"
#include "tools/certs/job_certificates.h"

namespace strata {
namespace {

TEST(StandaloneTlsTest, CertificatesAdmit) {
  constexpr int kFewSteps = 5;
  const test::TempFolder folder;
  const std::string certificates = join_path(folder.path(), "certificates");
  tools::make_job_certificates(certificates, {{"worker", 0}, {"worker", 1}, {"client", 0}}, {});
  const test::StandaloneServers servers(2, {"--certificates", certificates});
  MirroredOptions options = test::client_of(servers.addresses());
  const cluster::Environment environment({{"STRATA_TLS_DIR", certificates}});
  options.standalone.tls = cluster::tls_from_environment({"client", 0}, environment);
  MirroredStrategy strategy(options);
  EXPECT_EQ(test::train_model(strategy, "words", kFewSteps), test::train_here("words", kFewSteps));

  MirroredOptions without = test::client_of(servers.addresses());
  without.standalone.connect_timeout = std::chrono::seconds(2);
  EXPECT_ANY_THROW({ const MirroredStrategy stranger(without); });
  options.standalone.task = "/job:client/task:1";  // its certificate is another task's
  options.standalone.connect_timeout = std::chrono::seconds(2);
  EXPECT_ANY_THROW({ const MirroredStrategy impostor(options); });
}

TEST(StandaloneTlsTest, WorkersAndParameterServersHaveCertificates) {
  const test::TempFolder folder;
  const std::string certificates = join_path(folder.path(), "certificates");
  tools::make_job_certificates(certificates,
                               {{"worker", 0}, {"worker", 1}, {"ps", 0}, {"client", 0}}, {});
  const test::StandaloneServers servers(2, {"--certificates", certificates}, 1);
  ParameterServerStrategyOptions options{.client = "standalone"};
  options.standalone.servers = servers.addresses();
  options.standalone.parameter_servers = servers.parameter_servers();
  const cluster::Environment environment({{"STRATA_TLS_DIR", certificates}});
  options.standalone.tls = cluster::tls_from_environment({"client", 0}, environment);
  ParameterServerStrategy strategy(options);
  const Variable weight = strategy.scope([] { return Variable(torch::zeros({3})); });
  optimizers::SGD sgd({weight}, {.learning_rate = 1});
  const auto step = strata::function([&](const at::Tensor& x) {
    sgd.minimize((weight.value() * x).sum());
    return x;
  });
  strategy.run(step, torch::ones({3}));
  EXPECT_TRUE(weight.value().equal(torch::full({3}, -2.0))) << weight.value();
  strategy.close();
}

}  // namespace
}  // namespace strata
