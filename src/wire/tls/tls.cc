#include "wire/tls/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::wire {
namespace {

constexpr size_t kRecord = 16384;                // the most that TLS encrypts at once
constexpr size_t kOutgoing = size_t{256} << 10;  // encrypted bytes that wait for the stream below
constexpr size_t kFirst = size_t{64} << 10;      // of them, how many go as soon as they are there
// A key of AES-GCM is good for 2^24.5 records (RFC 8446, 5.5): 380 GB.
constexpr uint64_t kNewKeyAfter = uint64_t{64} << 30;
constexpr size_t kReadAhead = size_t{128} << 10;

// The oldest error of this thread, which is the cause; the queue is empty afterwards.
std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error of OpenSSL" : reason;
}

/// A key that other users of the host can read is not a secret. It is not refused: where a platform
/// mounts keys for a group (Kubernetes), the mode cannot be helped.
void look_at_mode(const std::string& key_file) {
  struct stat info = {};
  if (::stat(key_file.c_str(), &info) != 0 || (info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return;
  STRATA_LOG(kWarning) << "[wire] TLS: got key_file " << key_file
                       << ", which other users of this host can open; chmod 600 " << key_file;
}

class TlsStream final : public Stream {
 public:
  TlsStream(SSL_CTX* context, std::unique_ptr<Stream> below, bool connects, uint64_t new_key_after)
      : ssl_(SSL_new(context)), below_(std::move(below)), new_key_after_(new_key_after) {
    BIO* bio = BIO_new(bio_method());
    STRATA_CHECK(ssl_ != nullptr && bio != nullptr, kResourceExhausted,
                 "[wire] TLS: ", openssl_error());
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    connects ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  ~TlsStream() override { SSL_free(ssl_); }

  void watch(uint64_t key) override { below_->watch(key); }

  Outcome establish() override {
    if (!below_established_) {
      const Outcome outcome = below_->establish();
      if (outcome == Outcome::kFailed) return pass_on();
      if (outcome != Outcome::kMoved) return outcome;
      below_established_ = true;
    }
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    const Outcome sent = flush();  // an alert, too
    if (result == 1) return sent;
    return why_not(result).outcome;
  }

  Result write(std::span<const iovec> parts) override {
    if (flush() == Outcome::kFailed) return {Outcome::kFailed};
    ERR_clear_error();
    size_t taken = 0;
    std::byte gathered[kRecord];
    size_t part = 0;
    size_t offset = 0;
    while (part < parts.size() && outgoing_.size() - outgoing_sent_ < kOutgoing) {
      const auto* bytes = static_cast<const std::byte*>(parts[part].iov_base) + offset;
      size_t size = std::min(parts[part].iov_len - offset, kRecord);
      if (size < kRecord && part + 1 < parts.size()) {
        // A record of its own for a header would cost a call on both sides.
        bytes = gathered;
        size = 0;
        while (part < parts.size() && size < kRecord) {
          const size_t more = std::min(parts[part].iov_len - offset, kRecord - size);
          std::memcpy(gathered + size, static_cast<const std::byte*>(parts[part].iov_base) + offset,
                      more);
          size += more;
          advance(parts, part, offset, more);
        }
      } else {
        advance(parts, part, offset, size);
      }
      size_t written = 0;
      const int result = SSL_write_ex(ssl_, bytes, size, &written);
      // What is below takes everything, so this is the end of the connection.
      if (result != 1 || written != size) return why_not(result);
      const bool first = taken < kFirst;
      taken += size;
      written_with_key_ += size;
      if (written_with_key_ >= new_key_after_) {
        written_with_key_ = 0;
        SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);  // ends with the next record
      }
      // The peer begins to decrypt while the rest is encrypted.
      if (first && taken >= kFirst && flush() == Outcome::kFailed) return {Outcome::kFailed};
    }
    if (taken == 0) return {Outcome::kBlocked};
    if (flush() == Outcome::kFailed) return {Outcome::kFailed};
    return {Outcome::kMoved, taken};
  }

  Result read(std::span<const iovec> parts) override {
    ERR_clear_error();
    size_t came = 0;
    for (const iovec& part : parts) {
      size_t filled = 0;
      while (filled < part.iov_len) {
        size_t got = 0;
        const int result = SSL_read_ex(ssl_, static_cast<std::byte*>(part.iov_base) + filled,
                                       part.iov_len - filled, &got);
        if (result != 1) {
          if (came == 0) return why_not(result);
          // Blocked, or something that the next call tells.
          return {Outcome::kMoved, came, SSL_get_error(ssl_, result) == SSL_ERROR_WANT_READ};
        }
        filled += got;
        came += got;
      }
    }
    return {Outcome::kMoved, came, false};
  }

  Outcome flush() override {
    while (outgoing_sent_ < outgoing_.size()) {
      const iovec part = {.iov_base = outgoing_.data() + outgoing_sent_,
                          .iov_len = outgoing_.size() - outgoing_sent_};
      const Result result = below_->write({&part, 1});
      if (result.outcome == Outcome::kBlocked) return Outcome::kBlocked;
      if (result.outcome != Outcome::kMoved) return pass_on();
      outgoing_sent_ += result.bytes;
      flushed_bytes_ += result.bytes;
    }
    outgoing_.clear();
    outgoing_sent_ = 0;
    return Outcome::kMoved;
  }

  uint64_t bytes_produced() const override { return produced_; }
  uint64_t bytes_flushed() const override { return flushed_bytes_; }

  void end() override {
    ERR_clear_error();
    SSL_shutdown(ssl_);
    flush();
    below_->end();
  }

  void close() override { below_->close(); }
  bool received_any_bytes() const override { return below_->received_any_bytes(); }

  std::vector<std::string> peer_names() const override {
    std::vector<std::string> names;
    X509* const certificate = SSL_get0_peer_certificate(ssl_);
    if (certificate == nullptr) return names;
    auto* const all = static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
    for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
      const GENERAL_NAME* name = sk_GENERAL_NAME_value(all, i);
      if (name->type != GEN_DNS) continue;
      const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
      names.emplace_back(text, static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    }
    GENERAL_NAMES_free(all);
    // Without any name the peer would pass as one without TLS.
    if (names.empty()) names.emplace_back("(no name)");
    return names;
  }

 private:
  // OpenSSL's view of the stream below: it never waits, and takes all that is written.
  static BIO_METHOD* bio_method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "strata");
      BIO_meth_set_read_ex(made, [](BIO* bio, char* bytes, size_t size, size_t* got) {
        return static_cast<TlsStream*>(BIO_get_data(bio))->read_below(bio, bytes, size, got);
      });
      BIO_meth_set_write_ex(made, [](BIO* bio, const char* bytes, size_t size, size_t* put) {
        auto* self = static_cast<TlsStream*>(BIO_get_data(bio));
        const auto* begin = reinterpret_cast<const std::byte*>(bytes);
        self->outgoing_.insert(self->outgoing_.end(), begin, begin + size);
        self->produced_ += size;
        *put = size;
        return 1;
      });
      BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {
        return command == BIO_CTRL_FLUSH ? 1 : 0;
      });
      return made;
    }();
    return method;
  }

  int read_below(BIO* bio, char* bytes, size_t size, size_t* got) {
    BIO_clear_retry_flags(bio);
    const iovec part = {.iov_base = bytes, .iov_len = size};
    const Result result = below_->read({&part, 1});
    below_outcome_ = result.outcome;
    *got = result.bytes;
    if (result.outcome == Outcome::kMoved) return 1;
    if (result.outcome == Outcome::kBlocked) BIO_set_retry_read(bio);
    return 0;
  }

  static void advance(std::span<const iovec> parts, size_t& part, size_t& offset, size_t size) {
    offset += size;
    if (offset < parts[part].iov_len) return;
    ++part;
    offset = 0;
  }

  Outcome pass_on() { return failed(below_->status().code(), below_->status().message()); }

  Result why_not(int result) {
    switch (SSL_get_error(ssl_, result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        return {Outcome::kBlocked};
      case SSL_ERROR_ZERO_RETURN:
        return {Outcome::kEnd};
      default:
        break;
    }
    if (below_outcome_ == Outcome::kFailed) return {pass_on()};
    if (below_outcome_ == Outcome::kEnd) {
      ERR_clear_error();
      if (SSL_is_init_finished(ssl_)) return {Outcome::kEnd};
      return {failed(ErrorCode::kUnavailable, "it closed the connection during the TLS handshake")};
    }
    const long verdict = SSL_get_verify_result(ssl_);
    const std::string reason = openssl_error();
    return {failed(ErrorCode::kUnauthenticated,
                   verdict == X509_V_OK ? str_cat("TLS: ", reason)
                                        : str_cat("TLS: ", reason, " (",
                                                  X509_verify_cert_error_string(verdict), ")"))};
  }

  SSL* const ssl_;
  const std::unique_ptr<Stream> below_;
  const uint64_t new_key_after_;
  uint64_t written_with_key_ = 0;
  bool below_established_ = false;
  Outcome below_outcome_ = Outcome::kMoved;
  std::vector<std::byte> outgoing_;  // encrypted
  size_t outgoing_sent_ = 0;
  uint64_t produced_ = 0;
  uint64_t flushed_bytes_ = 0;
};

class OpenSslContext final : public TlsContext {
 public:
  OpenSslContext(const TlsOptions& options, uint64_t new_key_after)
      : context_(SSL_CTX_new(TLS_method())), new_key_after_(new_key_after) {
    ERR_clear_error();
    STRATA_CHECK(context_ != nullptr, kResourceExhausted, "[wire] TLS: ", openssl_error());
    try {
      set_up(options);
    } catch (...) {
      SSL_CTX_free(context_);
      throw;
    }
  }
  ~OpenSslContext() override { SSL_CTX_free(context_); }

  std::unique_ptr<Stream> secure(std::unique_ptr<Stream> below, bool connects) override {
    return std::make_unique<TlsStream>(context_, std::move(below), connects, new_key_after_);
  }

 private:
  void set_up(const TlsOptions& options) {
    SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
    // AES-128 is the fastest where the processor has instructions for it.
    SSL_CTX_set_ciphersuites(context_,
                             "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:"
                             "TLS_AES_256_GCM_SHA384");
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_mode(context_, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    // Every connection shows its certificates: nothing is resumed.
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context_, 0);
    SSL_CTX_set_read_ahead(context_, 1);
    SSL_CTX_set_default_read_buffer_len(context_, kReadAhead);

    const auto check = [](bool fine, const char* what, const std::string& file) {
      STRATA_CHECK(fine, kInvalidArgument, "[wire] TLS: got ", what, " ", file, ": ",
                   openssl_error(), "; `strata certs` makes a job's files");
    };
    check(SSL_CTX_load_verify_file(context_, options.authority_file.c_str()) == 1, "authority_file",
          options.authority_file);
    check(SSL_CTX_use_certificate_chain_file(context_, options.certificate_file.c_str()) == 1,
          "certificate_file", options.certificate_file);
    check(SSL_CTX_use_PrivateKey_file(context_, options.key_file.c_str(), SSL_FILETYPE_PEM) == 1,
          "key_file", options.key_file);
    look_at_mode(options.key_file);
  }

  SSL_CTX* const context_;
  const uint64_t new_key_after_;
};

}  // namespace

bool socket_transport_has_tls() { return true; }

std::shared_ptr<TlsContext> make_tls_context(const TlsOptions& options,
                                             std::optional<uint64_t> new_key_after) {
  return std::make_shared<OpenSslContext>(options, new_key_after.value_or(kNewKeyAfter));
}

}  // namespace strata::wire
