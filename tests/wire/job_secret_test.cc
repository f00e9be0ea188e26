// What a job's secret may be, where it is read from, and the proofs that are made of it.
#include "strata/wire/security.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <ostream>
#include <set>

#include "core/sha256.h"
#include "strata/core/str_cat.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "wire/handshake/handshake_message.h"
#include "wire/handshake/proof.h"

namespace strata::wire {
namespace {

template <typename T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};
static_assert(Printable<std::string>);
static_assert(!Printable<JobSecret>);

constexpr const char* kText = "0123456789abcdef0123456789abcdef";

TEST(JobSecretTest, TooShortOrTooLongIsRefusedWithoutBeingQuoted) {
  EXPECT_EQ(JobSecret(std::string(16, 'x')).reveal(), std::string(16, 'x'));
  EXPECT_EQ(JobSecret(std::string(4096, 'x')).reveal().size(), 4096U);
  expect_error([] { JobSecret("hunter2"); },
               "[wire] job secret: got one of 7 bytes; expected 16 to 4096; `openssl rand -hex 32` "
               "makes a good one");
  expect_error_containing([] { JobSecret(std::string(4097, 'x')); }, ErrorCode::kInvalidArgument,
                          "got one of 4097 bytes");
  expect_error_containing([] { JobSecret(""); }, ErrorCode::kInvalidArgument, "got one of 0 bytes");
}

TEST(JobSecretTest, RandomOnesDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string text = JobSecret::random().reveal();
    EXPECT_EQ(text.size(), 64U);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos) << text;
    EXPECT_TRUE(seen.insert(text).second);
  }
}

class JobSecretFileTest : public testing::Test {
 protected:
  std::string file(const std::string& content, mode_t mode) {
    const std::string path = folder_.path() + "/secret";
    ::unlink(path.c_str());
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  const test::TempFolder folder_;
};

TEST_F(JobSecretFileTest, IsItsContentWithoutTheEndOfTheLine) {
  for (const mode_t mode : {0600, 0400, 0700}) {
    EXPECT_EQ(JobSecret::from_file(file(kText, mode)).reveal(), kText);
  }
  EXPECT_EQ(JobSecret::from_file(file(str_cat(kText, "\n"), 0600)).reveal(), kText);
  EXPECT_EQ(JobSecret::from_file(file(str_cat(kText, "\r\n"), 0600)).reveal(), kText);
  EXPECT_EQ(JobSecret::from_file(file(str_cat(kText, "\n\n"), 0600)).reveal(),
            str_cat(kText, "\n"));
  const std::string bytes("any \0 bytes \xff are fine", 23);
  EXPECT_EQ(JobSecret::from_file(file(bytes, 0600)).reveal(), bytes);
  EXPECT_EQ(JobSecret::from_file(file(std::string(4096, 'x') + "\r\n", 0600)).reveal().size(),
            4096U);
  expect_error_containing([&] { JobSecret::from_file(file(std::string(10'000'000, 'x'), 0600)); },
                          ErrorCode::kInvalidArgument, "expected 16 to 4096");
  expect_error_containing([&] { JobSecret::from_file(file("hunter2\n", 0600)); },
                          ErrorCode::kInvalidArgument, "got one of 7 bytes");
}

TEST_F(JobSecretFileTest, OpenToOthersItIsNone) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0666, 0777}) {
    const std::string path = file(kText, mode);
    expect_error_containing([&] { JobSecret::from_file(path); }, ErrorCode::kPermissionDenied,
                            str_cat(", which is open to others; chmod 600 ", path));
  }
  const std::string path = file(kText, 0644);
  expect_error([&] { JobSecret::from_file(path); }, ErrorCode::kPermissionDenied,
               str_cat("[wire] job secret: got ", path,
                       " with mode 0644, which is open to others; chmod 600 ", path));
}

TEST_F(JobSecretFileTest, OfAnotherUserItIsNone) {
  // Only root can give files away; everybody else finds root's.
  std::string path = "/etc/passwd";
  if (::geteuid() == 0) {
    path = file(kText, 0600);
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  }
  expect_error_containing([&] { JobSecret::from_file(path); }, ErrorCode::kPermissionDenied,
                          str_cat("expected this process's user; chown ", ::geteuid(), " ", path));
}

TEST_F(JobSecretFileTest, OtherThingsThanFilesAreNone) {
  const std::string missing = folder_.path() + "/missing";
  expect_error_containing([&] { JobSecret::from_file(missing); }, ErrorCode::kNotFound,
                          str_cat("`(umask 077; openssl rand -hex 32 > ", missing, ")` makes one"));
  expect_error_containing([&] { JobSecret::from_file(folder_.path()); },
                          ErrorCode::kInvalidArgument, "which is no regular file");
  const std::string fifo = folder_.path() + "/fifo";  // whose opening waits for a writer
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_error_containing([&] { JobSecret::from_file(fifo); }, ErrorCode::kInvalidArgument,
                          "which is no regular file");
}

std::string hello(int task, const std::string& purpose, char nonce) {
  HelloMessage hello = {.hello = {.job = "job",
                                  .task = str_cat("/job:worker/task:", task),
                                  .generation = 5,
                                  .purpose = purpose},
                        .upgrade_protocol = "ucx",
                        .eager_limit = 65536,
                        .eager_budget = 1 << 20,
                        .proves = true};
  hello.nonce.fill(nonce);
  return encode_hello(hello);
}

std::string hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Against a few lines of Python with its hmac and hashlib: the bytes on the wire, and the proofs.
TEST(ProofTest, IsAnHmacOverBothHellos) {
  const std::string dialer = hello(1, "control", 0x11);
  const std::string listener = hello(0, "", 0x22);
  Sha256 hash;
  hash.update(dialer.data(), dialer.size());
  hash.update(listener.data(), listener.size());
  EXPECT_EQ(hash.hex_digest(), "382c73207f85c304cca4d9e89f1e7cfa32eac4b444ac9623ad0f23032832680d");
  const JobSecret secret(kText);
  EXPECT_EQ(hex(proof_of(End::kDialer, secret, dialer, listener)),
            "3f2b78fcb76441ba1bbdec3c4a7af02d401cd83e084d1c203aa158b8a8640f51");
  EXPECT_EQ(hex(proof_of(End::kListener, secret, dialer, listener)),
            "435fd921232d4032e3f1477236853599e3497c732ce0a04d5cf24a9267afddea");
}

TEST(ProofTest, EveryByteOfBothHellosCounts) {
  const JobSecret secret(kText);
  const std::string dialer = hello(1, "control", 0x11);
  const std::string listener = hello(0, "", 0x22);
  std::set<std::string> seen = {
      proof_of(End::kDialer, secret, dialer, listener),
      proof_of(End::kListener, secret, dialer, listener),
      proof_of(End::kDialer, secret, listener, dialer),
      proof_of(End::kDialer, JobSecret::random(), dialer, listener),
      // One byte moves from one hello into the other.
      proof_of(End::kDialer, secret, dialer + listener[0], listener.substr(1))};
  size_t made = 5;
  for (size_t i = 0; i < dialer.size(); ++i, ++made) {
    std::string other = dialer;
    other[i] = static_cast<char>(other[i] ^ 1);
    seen.insert(proof_of(End::kDialer, secret, other, listener));
  }
  for (size_t i = 0; i < listener.size(); ++i, ++made) {
    std::string other = listener;
    other[i] = static_cast<char>(other[i] ^ 1);
    seen.insert(proof_of(End::kDialer, secret, dialer, other));
  }
  EXPECT_EQ(seen.size(), made);
}

TEST(HelloMessageTest, CarriesItsNonceAndWhetherItProves) {
  const std::string text = hello(3, "data/x", 0x33);
  const auto message = std::get<HelloMessage>(
      decode_handshake_message(std::string_view(text).substr(0, kEnvelopeSize),
                               std::string_view(text).substr(kEnvelopeSize)));
  EXPECT_TRUE(message.proves);
  EXPECT_EQ(std::string(message.nonce.begin(), message.nonce.end()), std::string(32, 0x33));
  EXPECT_EQ(message.hello.purpose, "data/x");
}

TEST(HelloMessageTest, ProofsHaveOneSize) {
  const auto parsed = [](const std::string& text) {
    return decode_handshake_message(std::string_view(text).substr(0, kEnvelopeSize),
                                    std::string_view(text).substr(kEnvelopeSize));
  };
  const std::string bytes(kProofSize, 'p');
  EXPECT_EQ(std::get<Proof>(parsed(encode_proof({bytes}))).bytes, bytes);
  for (const size_t size : {size_t{0}, kProofSize - 1, kProofSize + 1}) {
    expect_error_containing([&] { parsed(encode_proof({std::string(size, 'p')})); },
                            ErrorCode::kDataLoss, str_cat("a proof of ", size, " bytes"));
  }
}

}  // namespace
}  // namespace strata::wire
