// With certificates; only where this build has OpenSSL.
#include "ps/tables_by_wire.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "wire/tls/certificates.h"

namespace strata::test {
namespace {

/// Each task's certificate, of one authority.
class Certificates {
 public:
  explicit Certificates(const wire::Certificate& authority) : authority_(authority) {
    wire::write_certificate(authority, folder_.path(), "authority");
  }

  cluster::ServerOptions options(const cluster::TaskId& task) const {
    const std::string name = str_cat(task.job, "-", task.index);
    wire::write_certificate(wire::issue_certificate(authority_, task.to_string()), folder_.path(),
                            name);
    const std::string path = str_cat(folder_.path(), "/", name);
    return {.start_timeout = std::chrono::seconds(20),
            .tls = wire::TlsOptions{.authority_file = str_cat(folder_.path(), "/authority.pem"),
                                    .certificate_file = str_cat(path, ".pem"),
                                    .key_file = str_cat(path, ".key")}};
  }

 private:
  const TempFolder folder_;
  const wire::Certificate authority_;
};

TEST(TablesByTlsTest, CertificatesChangeNoBit) {
  const Certificates certificates(wire::make_authority("job"));
  const auto plain = [](const cluster::TaskId&) { return cluster::ServerOptions{}; };
  const auto secure = [&](const cluster::TaskId& task) { return certificates.options(task); };
  expect_same(train_by_wire(secure, false), train_by_wire(plain, false));
}

TEST(TablesByTlsTest, AWorkerOfAnotherAuthorityIsRefused) {
  const Certificates actual(wire::make_authority("job"));
  const Certificates others(wire::make_authority("job"));
  expect_error_containing(
      [&] {
        train_by_wire(
            [&](const cluster::TaskId& task) {
              return (task.job == "ps" ? actual : others).options(task);
            },
            false);
      },
      ErrorCode::kUnauthenticated, "/job:ps/task:0");
}

}  // namespace
}  // namespace strata::test
