// In place of tls.cc, certificates.cc and inspect_certificate.cc where OpenSSL is missing.
#include "strata/core/error.h"
#include "wire/tls/certificates.h"
#include "wire/tls/tls.h"

namespace strata::wire {
namespace {

[[noreturn]] void no_openssl(const char* call) {
  strata::detail::throw_error(ErrorCode::kUnimplemented,
                              str_cat("[wire] ", call,
                                      ": this build has no OpenSSL; install OpenSSL 3 "
                                      "(Debian: libssl-dev) and build again"));
}

}  // namespace

bool socket_transport_has_tls() { return false; }
std::shared_ptr<TlsContext> make_tls_context(const TlsOptions&, std::optional<uint64_t>) {
  no_openssl("TLS");
}
Certificate make_authority(const std::string&, const CertificateOptions&) {
  no_openssl("make_authority");
}
Certificate issue_certificate(const Certificate&, std::string_view, const CertificateOptions&) {
  no_openssl("issue_certificate");
}
CertificateInfo inspect_certificate(const std::string&) { no_openssl("inspect_certificate"); }
Status verify_certificate(const Certificate&, const std::string&,
                          std::chrono::system_clock::time_point) {
  no_openssl("verify_certificate");
}

}  // namespace strata::wire
