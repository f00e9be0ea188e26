#include "wire/handshake/handshake_message.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/crc32c.h"
#include "core/escaped.h"

namespace strata::wire {
namespace {

// magic, version, size of the body, crc32c of the body
constexpr std::string_view kMagic = "strata";

template <typename Number>
void put_number(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename Number>
Number number_at(std::string_view bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

void put_text(std::string& out, std::string_view text, const char* what) {
  STRATA_CHECK(text.size() <= 255, kInvalidArgument, "[wire] hello: got a ", what, " of ",
               text.size(), " bytes; expected at most 255");
  put_number<uint8_t>(out, static_cast<uint8_t>(text.size()));
  out += text;
}

std::string in_envelope(std::string_view body) {
  std::string out(kMagic);
  put_number<uint16_t>(out, kProtocolVersion);
  put_number<uint32_t>(out, static_cast<uint32_t>(body.size()));
  put_number<uint32_t>(out, crc32c(body.data(), body.size()));
  out += body;
  return out;
}

/// Names end up in errors and logs of the other side, where a control character could forge a line.
bool is_text(std::string_view name) {
  return std::ranges::all_of(name, [](char letter) { return letter >= 0x20 && letter < 0x7F; });
}

class Reader {
 public:
  explicit Reader(std::string_view left) : left_(left) {}

  std::string_view take(size_t size) {
    STRATA_CHECK(size <= left_.size(), kDataLoss, "a handshake message that ends too early");
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }
  template <typename Number>
  Number number() {
    return number_at<Number>(take(sizeof(Number)), 0);
  }
  std::string text() { return std::string(take(number<uint8_t>())); }
  std::string rest() { return std::string(std::exchange(left_, {})); }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view left_;
};

constexpr uint8_t kHello = 1;
constexpr uint8_t kReject = 2;
constexpr uint8_t kProof = 3;

}  // namespace

std::string encode_hello(const HelloMessage& message) {
  std::string body;
  put_number<uint8_t>(body, kHello);
  put_number<uint64_t>(body, message.hello.generation);
  put_number<uint64_t>(body, message.eager_limit);
  put_number<uint64_t>(body, message.eager_budget);
  put_number<uint8_t>(body, message.proves ? 1 : 0);
  body.append(message.nonce.data(), message.nonce.size());
  put_text(body, message.hello.job, "job");
  put_text(body, message.hello.task, "task");
  put_text(body, message.hello.purpose, "purpose");
  put_text(body, message.upgrade_protocol, "way");
  return in_envelope(body);
}

std::string encode_reject(const Status& why) {
  std::string body;
  put_number<uint8_t>(body, kReject);
  put_number<uint8_t>(body, static_cast<uint8_t>(why.code()));
  body += std::string_view(why.message()).substr(0, kMaxHandshakeMessage - body.size());
  return in_envelope(body);
}

std::string encode_proof(const Proof& proof) {
  std::string body;
  put_number<uint8_t>(body, kProof);
  body += proof.bytes;
  return in_envelope(body);
}

size_t handshake_message_size(std::string_view envelope) {
  const size_t magic = std::min(envelope.size(), kMagic.size());
  STRATA_CHECK(envelope.substr(0, magic) == kMagic.substr(0, magic), kDataLoss,
               "bytes that are no strata handshake");
  if (envelope.size() < kEnvelopeSize) return 0;
  const auto version = number_at<uint16_t>(envelope, 6);
  STRATA_CHECK(version == kProtocolVersion, kUnimplemented, "version ", version,
               " of the protocol; this is version ", kProtocolVersion,
               "; run the same strata everywhere");
  const auto size = number_at<uint32_t>(envelope, 8);
  STRATA_CHECK(size > 0 && size <= kMaxHandshakeMessage, kDataLoss, "a handshake message of ", size,
               " bytes");
  return size;
}

std::variant<HelloMessage, Proof, Status> decode_handshake_message(std::string_view envelope,
                                                                   std::string_view body) {
  STRATA_CHECK(number_at<uint32_t>(envelope, 12) == crc32c(body.data(), body.size()), kDataLoss,
               "a handshake message with a wrong checksum");
  Reader reader(body);
  const auto kind = reader.number<uint8_t>();
  if (kind == kReject) {
    const auto code = reader.number<uint8_t>();
    STRATA_CHECK(code >= 1 && code <= static_cast<uint8_t>(ErrorCode::kUnauthenticated), kDataLoss,
                 "a refusal with an unknown code");
    return Status(static_cast<ErrorCode>(code),
                  strata::detail::escaped(reader.rest(), kMaxHandshakeMessage));
  }
  if (kind == kProof) {
    Proof proof = {.bytes = reader.rest()};
    STRATA_CHECK(proof.bytes.size() == kProofSize, kDataLoss, "a proof of ", proof.bytes.size(),
                 " bytes");
    return proof;
  }
  STRATA_CHECK(kind == kHello, kDataLoss, "a handshake message of an unknown kind");
  HelloMessage message;
  message.hello.generation = reader.number<uint64_t>();
  message.eager_limit = reader.number<uint64_t>();
  message.eager_budget = reader.number<uint64_t>();
  const auto proves = reader.number<uint8_t>();
  STRATA_CHECK(proves <= 1, kDataLoss, "a handshake message with an unknown way to prove itself");
  message.proves = proves == 1;
  std::ranges::copy(reader.take(kNonceSize), message.nonce.begin());
  message.hello.job = reader.text();
  message.hello.task = reader.text();
  message.hello.purpose = reader.text();
  message.upgrade_protocol = reader.text();
  STRATA_CHECK(reader.empty(), kDataLoss, "a handshake message that is too long");
  for (const std::string* name :
       {&message.hello.task, &message.hello.purpose, &message.upgrade_protocol}) {
    STRATA_CHECK(is_text(*name), kDataLoss,
                 "a handshake message whose names are no text: ", strata::detail::escaped(*name));
  }
  return message;
}

}  // namespace strata::wire
