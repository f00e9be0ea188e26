// With certificates; only where this build has OpenSSL.
#include <gtest/gtest.h>

#include "ps/coordinator_processes.h"
#include "strata/cluster/tls_environment.h"
#include "support/temp_folder.h"
#include "wire/tls/certificates.h"

namespace strata::test {
namespace {

TEST(CoordinatorTlsTest, WithCertificatesAllEndsWellAndStrangersAreNamed) {
  const TempFolder folder;
  const wire::Certificate authority = wire::make_authority("job");
  auto cluster = coordinator_processes({"run", "200", "0", "2"}, 2);
  wire::write_certificate(authority, folder.path(), "authority");
  for (const cluster::TaskId& task : cluster.tasks()) {
    wire::write_certificate(wire::issue_certificate(authority, task.to_string()), folder.path(),
                            cluster::certificate_file_name(task));
  }
  set_all(cluster, "STRATA_TLS_DIR", folder.path());
  cluster.start();
  for (const auto& [task, exit] : cluster.wait()) expect_done(exit, task);

  // A worker that shows another's certificate.
  auto wrong = coordinator_processes({"run", "200", "0", "1"}, 1);
  const TempFolder others;
  const wire::Certificate stranger = wire::make_authority("job");
  wire::write_certificate(stranger, others.path(), "authority");
  wire::write_certificate(wire::issue_certificate(stranger, worker(0).to_string()), others.path(),
                          cluster::certificate_file_name(worker(0)));
  wrong.set_environment(kChief, "STRATA_TLS_DIR", folder.path());
  wrong.set_environment(worker(0), "STRATA_TLS_DIR", others.path());
  wrong.start();
  const auto exit = wrong.wait(kChief);
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find("error UNAUTHENTICATED"), std::string::npos) << exit.output;
  EXPECT_NE(exit.output.find("/job:worker/task:0"), std::string::npos) << exit.output;
}

}  // namespace
}  // namespace strata::test
