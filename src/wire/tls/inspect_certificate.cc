#include <openssl/err.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "strata/core/error.h"
#include "wire/tls/certificates.h"
#include "wire/tls/openssl_memory.h"

namespace strata::wire {
namespace {

using StorePtr = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;

X509Ptr read(const std::string& pem, const char* call) {
  X509Ptr certificate = read_x509(pem);
  ERR_clear_error();
  STRATA_CHECK(certificate != nullptr, kInvalidArgument, "[wire] ", call,
               ": got something that is no certificate in PEM form; expected -----BEGIN "
               "CERTIFICATE-----");
  return certificate;
}

/// A year beyond what the clock can count (9999 is common) is its last moment.
std::chrono::system_clock::time_point time_of(const ASN1_TIME* time) {
  using Clock = std::chrono::system_clock;
  std::tm fields = {};
  STRATA_CHECK(ASN1_TIME_to_tm(time, &fields) == 1, kInvalidArgument,
               "[wire] inspect_certificate: got an invalid date");
  constexpr auto seconds_of = [](Clock::time_point at) {
    return std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
  };
  const auto seconds = std::clamp<int64_t>(::timegm(&fields), seconds_of(Clock::time_point::min()),
                                           seconds_of(Clock::time_point::max()));
  return Clock::time_point(std::chrono::seconds(seconds));
}

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

std::vector<std::string> names_of(const X509* certificate) {
  std::vector<std::string> names;
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all, i);
    if (name->type == GEN_DNS) names.push_back(text_of(name->d.dNSName));
  }
  GENERAL_NAMES_free(all);
  return names;
}

std::string owner_of(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(const_cast<X509_NAME*>(subject), NID_commonName, -1);
  if (at < 0) return "";
  return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

}  // namespace

CertificateInfo inspect_certificate(const std::string& pem) {
  const X509Ptr certificate = read(pem, "inspect_certificate");
  return {.owner = owner_of(certificate.get()),
          .names = names_of(certificate.get()),
          .is_authority = X509_check_ca(certificate.get()) == 1,
          .valid_from = time_of(X509_get0_notBefore(certificate.get())),
          .valid_until = time_of(X509_get0_notAfter(certificate.get()))};
}

Status verify_certificate(const Certificate& certificate, const std::string& authority,
                          std::chrono::system_clock::time_point now) {
  const X509Ptr own = read(certificate.certificate, "verify_certificate");
  const X509Ptr issuer = read(authority, "verify_certificate");
  const StorePtr store(X509_STORE_new());
  const StoreContextPtr context(X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), issuer.get());
  X509_STORE_CTX_init(context.get(), store.get(), own.get(), nullptr);
  X509_STORE_CTX_set_time(context.get(), 0, std::chrono::system_clock::to_time_t(now));
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (!good) {
    return {ErrorCode::kUnauthenticated,
            X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()))};
  }
  const KeyPtr key = read_key(certificate.key);
  const bool fits = key != nullptr && X509_check_private_key(own.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return {ErrorCode::kUnauthenticated, "the key does not belong to it"};
  return {};
}

}  // namespace strata::wire
