#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace strata::wire {

// OpenSSL's objects, owned, and PEM texts to read them from.

template <auto kFree>
struct Freer {
  template <typename Thing>
  void operator()(Thing* thing) const {
    kFree(thing);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, Freer<X509_free>>;
using BioPtr = std::unique_ptr<BIO, Freer<BIO_vfree>>;

inline BioPtr reader_of(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Nullptr: it is no certificate, or key; the reason is in OpenSSL's queue.
inline X509Ptr read_x509(const std::string& pem) {
  return X509Ptr(PEM_read_bio_X509(reader_of(pem).get(), nullptr, nullptr, nullptr));
}
inline KeyPtr read_key(const std::string& pem) {
  return KeyPtr(PEM_read_bio_PrivateKey(reader_of(pem).get(), nullptr, nullptr, nullptr));
}

}  // namespace strata::wire
