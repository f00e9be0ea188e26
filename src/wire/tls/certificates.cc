#include "wire/tls/certificates.h"

#include <openssl/err.h>
#include <openssl/rand.h>

#include <ctime>
#include <string>

#include "strata/core/error.h"
#include "wire/tls/openssl_memory.h"

namespace strata::wire {
namespace {

using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;

// What cannot fail but for want of memory.
void ok(bool fine) {
  STRATA_CHECK(fine, kInternal,
               "[wire] certificate: OpenSSL: ", ERR_reason_error_string(ERR_get_error()));
}

std::string text_of(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

void set_time(ASN1_TIME* field, std::chrono::system_clock::time_point time) {
  ok(ASN1_TIME_set(field, std::chrono::system_clock::to_time_t(time)) != nullptr);
}

// A certificate that lacks its issuer and its signature.
X509Ptr make_unsigned(EVP_PKEY* key, const std::string& name, const CertificateOptions& options) {
  X509Ptr certificate(X509_new());
  ok(certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1);
  uint64_t serial = 0;
  ok(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
  ok(ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1 | 1) == 1);
  set_time(X509_getm_notBefore(certificate.get()), options.valid_from);
  set_time(X509_getm_notAfter(certificate.get()), options.valid_from + options.valid_for);
  ok(X509_set_pubkey(certificate.get(), key) == 1);
  ok(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                0) == 1);
  return certificate;
}

void extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  ok(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

Certificate to_pem(X509* certificate, EVP_PKEY* key) {
  const BioPtr of_certificate(BIO_new(BIO_s_mem()));
  const BioPtr of_key(BIO_new(BIO_s_mem()));
  ok(PEM_write_bio_X509(of_certificate.get(), certificate) == 1);
  ok(PEM_write_bio_PKCS8PrivateKey(of_key.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return {.certificate = text_of(of_certificate.get()), .key = text_of(of_key.get())};
}

}  // namespace

Certificate make_authority(const std::string& job, const CertificateOptions& options) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  ok(key != nullptr);
  // The standard allows 64 bytes.
  const X509Ptr certificate =
      make_unsigned(key.get(), "strata authority of " + job.substr(0, 40), options);
  ok(X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get())) == 1);
  extend(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  ok(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  return to_pem(certificate.get(), key.get());
}

Certificate issue_certificate(const Certificate& authority, std::string_view task,
                              const CertificateOptions& options) {
  const std::string name = certificate_name(task);
  const X509Ptr issuer = read_x509(authority.certificate);
  const KeyPtr issuer_key = read_key(authority.key);
  const bool fits = issuer != nullptr && issuer_key != nullptr &&
                    X509_check_ca(issuer.get()) == 1 &&
                    X509_check_private_key(issuer.get(), issuer_key.get()) == 1;
  ERR_clear_error();
  STRATA_CHECK(fits, kInvalidArgument, "[wire] issue_certificate: got for ", task,
               " something that is no authority with its key; make_authority makes one");
  const KeyPtr key(EVP_EC_gen("P-256"));
  ok(key != nullptr);
  const X509Ptr certificate = make_unsigned(key.get(), name.substr(0, 64), options);
  ok(X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get())) == 1);
  extend(certificate.get(), issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
  extend(certificate.get(), issuer.get(), NID_key_usage, "critical,digitalSignature");
  extend(certificate.get(), issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  extend(certificate.get(), issuer.get(), NID_subject_key_identifier, "hash");
  extend(certificate.get(), issuer.get(), NID_authority_key_identifier, "keyid:always");
  extend(certificate.get(), issuer.get(), NID_subject_alt_name, "DNS:" + name);
  ok(X509_sign(certificate.get(), issuer_key.get(), EVP_sha256()) > 0);
  return to_pem(certificate.get(), key.get());
}

}  // namespace strata::wire
